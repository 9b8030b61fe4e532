{{- /* Names that are worked out; src/bayplan/install/names.py says the same, and a test compares them. */}}

{{- define "bayplan.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bayplan.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "bayplan.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bayplan.instance" -}}
{{- .Release.Name }}
{{- end }}

{{- define "bayplan.managedBy" -}}
{{- .Release.Service }}
{{- end }}

{{- define "bayplan.namespace" -}}
{{- .Release.Namespace }}
{{- end }}

{{- define "bayplan.leaseNamespace" -}}
{{- $found := "" }}
{{- if eq .Values.shape "service" }}
{{- $found = dig "extender" "lease" "namespace" "" .Values.config }}
{{- else if eq .Values.shape "standalone" }}
{{- $found = dig "scheduler" "leaderElection" "resourceNamespace" "" .Values.config }}
{{- end }}
{{- $found | default .Release.Namespace }}
{{- end }}

{{- define "bayplan.schedulerNames" -}}
{{- $profiles := list }}
{{- if eq .Values.shape "standalone" }}
{{- $profiles = dig "scheduler" "profiles" list .Values.config | default list }}
{{- end }}
{{- $names := list }}
{{- range $profiles }}
{{- $names = append $names .schedulerName }}
{{- end }}
{{- $names | default (list .Values.scheduler.name) | join " or " }}
{{- end }}

{{- define "bayplan.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "bayplan.fullname" .) }}
{{- end }}

{{- define "bayplan.version" -}}
{{- .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bayplan.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "bayplan.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "bayplan.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- define "bayplan.kubernetesVersion" -}}
{{- $version := semver (.Values.kubernetesVersion | default .Capabilities.KubeVersion.Version) }}
{{- printf "%d.%d" $version.Major $version.Minor }}
{{- end }}

{{- define "bayplan.schedulerImage" -}}
{{- $version := semver (.Values.kubernetesVersion | default .Capabilities.KubeVersion.Version) }}
{{- $tag := printf "v%d.%d.%d" $version.Major $version.Minor $version.Patch }}
{{- printf "%s:%s" .Values.scheduler.image.repository (.Values.scheduler.image.tag | default $tag) }}
{{- end }}

{{- define "bayplan.serverSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "bayplan.fullname" .)) }}
{{- end }}

{{- define "bayplan.clientSecret" -}}
{{- .Values.tls.clientSecretName | default (printf "%s-client-tls" (include "bayplan.fullname" .)) }}
{{- end }}

{{- define "bayplan.pagePort" -}}
{{- $listen := toString (dig "page" "listen" "" .Values.config) }}
{{- if and (regexMatch ":[0-9]+$" $listen) (not (regexMatch "^(127[.][0-9.]+|localhost|\\[::1\\]|::1):" $listen)) }}
{{- regexReplaceAll "^.*:" $listen "" }}
{{- end }}
{{- end }}

{{- define "bayplan.url" -}}
{{- $scheme := ternary "http" "https" (eq .Values.tls.mode "none") }}
{{- if eq .Values.shape "sidecar" }}
{{- print "http://127.0.0.1:8888" }}
{{- else if eq .Values.shape "control-plane" }}
{{- printf "%s://127.0.0.1:8888" $scheme }}
{{- else }}
{{- $host := .Values.service.clusterIP | default (printf "%s.%s.svc" (include "bayplan.fullname" .) .Release.Namespace) }}
{{- $host = ternary (printf "[%s]" $host) $host (contains ":" $host) }}
{{- printf "%s://%s:%d" $scheme $host (int .Values.service.port) }}
{{- end }}
{{- end }}
