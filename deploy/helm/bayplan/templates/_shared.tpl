{{- /* Made by `make chart` from src/bayplan/install: edit there. */}}
{{- define "bayplan.configDefaults" -}}
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
{{- if (eq .Values.shape "control-plane") }}
page:
  listen: "off"
{{- end }}
{{- end }}
{{- define "bayplan.configSettled" -}}
cluster:
  source: in-cluster
{{- if (not (eq .Values.shape "standalone")) }}
extender:
{{- if (eq .Values.shape "service") }}
  listen: ":8888"
{{- else }}
  listen: "127.0.0.1:8888"
{{- end }}
{{- if (eq .Values.shape "control-plane") }}
  opsListen: "127.0.0.1:8889"
{{- else }}
  opsListen: ":8889"
{{- end }}
  path: "/"
  kubeSchedulerVersion: {{ include "bayplan.kubernetesVersion" . | quote }}
  lease:
{{- if (and (eq .Values.shape "service") .Values.verbs.bind) }}
    use: auto
{{- else }}
    use: never
{{- end }}
    name: {{ include "bayplan.fullname" . | quote }}
{{- if (and (or (eq .Values.shape "service") (eq .Values.shape "control-plane")) (not (eq .Values.tls.mode "none"))) }}
  tls:
    certFile: /etc/bayplan-tls/tls.crt
    keyFile: /etc/bayplan-tls/tls.key
    clientCAFile: /etc/bayplan-tls/ca.crt
    requireClientCert: true
    allowedNames:
{{- toYaml .Values.tls.allowedNames | nindent 6 }}
{{- end }}
{{- end }}
{{- if (eq .Values.shape "standalone") }}
scheduler:
{{- if (not (dig "scheduler" "profiles" false .Values.config)) }}
  profiles:
  - schedulerName: {{ .Values.scheduler.name | toJson }}
{{- end }}
  opsListen: ":8891"
  leaderElection:
    leaderElect: true
    resourceName: {{ include "bayplan.fullname" . | quote }}
{{- end }}
{{- end }}
{{- define "bayplan.container" -}}
name: bayplan
image: {{ include "bayplan.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy | toJson }}
{{- if (and (eq .Values.shape "sidecar") (semverCompare ">=1.29.0-0" (include "bayplan.kubernetesVersion" .))) }}
restartPolicy: Always
{{- end }}
command:
- bayplan
args:
{{- if (eq .Values.shape "standalone") }}
- schedule
{{- else }}
- serve
{{- end }}
- "--config=/etc/bayplan/bayplan.yaml"
- "--log-format=json"
{{- with .Values.extraArgs }}
{{- toYaml . | nindent 0 }}
{{- end }}
env:
- name: PYTHONDONTWRITEBYTECODE
  value: "1"
{{- with .Values.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
ports:
{{- if (eq .Values.shape "service") }}
- name: extender
  containerPort: 8888
  protocol: TCP
{{- end }}
- name: ops
{{- if (eq .Values.shape "standalone") }}
  containerPort: 8891
{{- else }}
  containerPort: 8889
{{- end }}
  protocol: TCP
startupProbe:
  httpGet:
{{- if (eq .Values.shape "sidecar") }}
    path: /readyz
{{- else }}
    path: /livez
{{- end }}
    port: ops
{{- if (eq .Values.shape "control-plane") }}
    host: "127.0.0.1"
{{- end }}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet:
    path: /livez
    port: ops
{{- if (eq .Values.shape "control-plane") }}
    host: "127.0.0.1"
{{- end }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: ops
{{- if (eq .Values.shape "control-plane") }}
    host: "127.0.0.1"
{{- end }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- if (eq .Values.shape "service") }}
lifecycle:
{{- if (and (eq .Values.shape "service") .Values.verbs.bind) }}
{{- if (semverCompare ">=1.30.0-0" (include "bayplan.kubernetesVersion" .)) }}
  preStop:
    sleep:
      seconds: 15
{{- else }}
  preStop:
    exec:
      command:
      - python
      - "-c"
      - "import time; time.sleep(15)"
{{- end }}
{{- else }}
{{- if (semverCompare ">=1.30.0-0" (include "bayplan.kubernetesVersion" .)) }}
  preStop:
    sleep:
      seconds: 5
{{- else }}
  preStop:
    exec:
      command:
      - python
      - "-c"
      - "import time; time.sleep(5)"
{{- end }}
{{- end }}
{{- end }}
securityContext:
{{- toYaml .Values.securityContext | nindent 2 }}
resources:
{{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
- name: config
  mountPath: /etc/bayplan
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if (and (or (eq .Values.shape "service") (eq .Values.shape "control-plane")) (not (eq .Values.tls.mode "none"))) }}
- name: tls
  mountPath: /etc/bayplan-tls
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
{{- define "bayplan.kubeScheduler" -}}
name: kube-scheduler
image: {{ include "bayplan.schedulerImage" . | quote }}
imagePullPolicy: {{ .Values.scheduler.image.pullPolicy | toJson }}
command:
- kube-scheduler
- "--config=/etc/kube-scheduler/kube-scheduler.yaml"
- "--secure-port=10259"
- {{ printf "--v=%s" (toString .Values.scheduler.verbosity) | quote }}
ports:
- name: https
  containerPort: 10259
  protocol: TCP
livenessProbe:
  httpGet:
{{- if (semverCompare ">=1.31.0-0" (include "bayplan.kubernetesVersion" .)) }}
    path: /livez
{{- else }}
    path: /healthz
{{- end }}
    port: https
    scheme: HTTPS
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
{{- if (semverCompare ">=1.31.0-0" (include "bayplan.kubernetesVersion" .)) }}
    path: /readyz
{{- else }}
    path: /healthz
{{- end }}
    port: https
    scheme: HTTPS
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
securityContext:
{{- toYaml .Values.securityContext | nindent 2 }}
resources:
{{- toYaml .Values.scheduler.resources | nindent 2 }}
volumeMounts:
- name: scheduler-config
  mountPath: /etc/kube-scheduler
  readOnly: true
{{- end }}
{{- define "bayplan.labels" -}}
app.kubernetes.io/name: {{ include "bayplan.name" . | quote }}
app.kubernetes.io/instance: {{ include "bayplan.instance" . | quote }}
app.kubernetes.io/version: {{ include "bayplan.version" . | quote }}
app.kubernetes.io/managed-by: {{ include "bayplan.managedBy" . | quote }}
{{- if true }}
helm.sh/chart: {{ include "bayplan.chart" . | quote }}
{{- end }}
{{- end }}
{{- define "bayplan.podTemplate" -}}
metadata:
  labels:
    app.kubernetes.io/name: {{ include "bayplan.name" . | quote }}
    app.kubernetes.io/instance: {{ include "bayplan.instance" . | quote }}
{{- with .Values.podLabels }}
{{- toYaml . | nindent 4 }}
{{- end }}
  annotations:
    checksum/config: {{ print (include (print $.Template.BasePath "/configmap.yaml") .) | sha256sum }}
{{- with .Values.podAnnotations }}
{{- toYaml . | nindent 4 }}
{{- end }}
spec:
  schedulerName: default-scheduler
  serviceAccountName: {{ include "bayplan.serviceAccountName" . | quote }}
  enableServiceLinks: false
{{- if .Values.imagePullSecrets }}
  imagePullSecrets:
{{- toYaml .Values.imagePullSecrets | nindent 4 }}
{{- end }}
{{- if .Values.priorityClassName }}
  priorityClassName: {{ .Values.priorityClassName | toJson }}
{{- else }}
{{- if (eq .Release.Namespace "kube-system") }}
  priorityClassName: system-cluster-critical
{{- else }}
  priorityClassName: {{ include "bayplan.clusterName" . | quote }}
{{- end }}
{{- end }}
{{- if (eq .Values.shape "control-plane") }}
  hostNetwork: true
{{- end }}
{{- if (eq .Values.shape "control-plane") }}
  dnsPolicy: ClusterFirstWithHostNet
{{- end }}
  securityContext:
{{- toYaml .Values.podSecurityContext | nindent 4 }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds | toJson }}
{{- if (and (eq .Values.shape "sidecar") (semverCompare ">=1.29.0-0" (include "bayplan.kubernetesVersion" .))) }}
  initContainers:
  -
{{- include "bayplan.container" . | nindent 4 }}
{{- end }}
  containers:
{{- if (eq .Values.shape "sidecar") }}
  -
{{- include "bayplan.kubeScheduler" . | nindent 4 }}
{{- end }}
{{- if (not (and (eq .Values.shape "sidecar") (semverCompare ">=1.29.0-0" (include "bayplan.kubernetesVersion" .)))) }}
  -
{{- include "bayplan.container" . | nindent 4 }}
{{- end }}
  volumes:
  - name: config
    configMap:
      name: {{ printf "%s-config" (include "bayplan.fullname" .) | quote }}
  - name: tmp
    emptyDir:
      sizeLimit: "64Mi"
{{- if (eq .Values.shape "sidecar") }}
  - name: scheduler-config
    configMap:
      name: {{ printf "%s-scheduler-config" (include "bayplan.fullname" .) | quote }}
{{- end }}
{{- if (and (or (eq .Values.shape "service") (eq .Values.shape "control-plane")) (not (eq .Values.tls.mode "none"))) }}
  - name: tls
    secret:
      secretName: {{ include "bayplan.serverSecret" . | quote }}
      defaultMode: 288
{{- end }}
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- if (eq .Values.shape "control-plane") }}
  nodeSelector:
    node-role.kubernetes.io/control-plane: ""
{{- with .Values.nodeSelector }}
{{- toYaml . | nindent 4 }}
{{- end }}
{{- else }}
{{- if .Values.nodeSelector }}
  nodeSelector:
{{- toYaml .Values.nodeSelector | nindent 4 }}
{{- end }}
{{- end }}
{{- if (eq .Values.shape "control-plane") }}
  tolerations:
  - key: node-role.kubernetes.io/control-plane
    operator: Exists
    effect: NoSchedule
{{- with .Values.tolerations }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
{{- if .Values.tolerations }}
  tolerations:
{{- toYaml .Values.tolerations | nindent 4 }}
{{- end }}
{{- end }}
{{- if .Values.affinity }}
  affinity:
{{- toYaml .Values.affinity | nindent 4 }}
{{- end }}
{{- if (not (eq .Values.shape "control-plane")) }}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
{{- include "bayplan.selectorLabels" . | nindent 8 }}
{{- if (semverCompare ">=1.27.0-0" (include "bayplan.kubernetesVersion" .)) }}
    matchLabelKeys:
    - pod-template-hash
{{- end }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
{{- include "bayplan.selectorLabels" . | nindent 8 }}
{{- if (semverCompare ">=1.27.0-0" (include "bayplan.kubernetesVersion" .)) }}
    matchLabelKeys:
    - pod-template-hash
{{- end }}
{{- end }}
{{- end }}
{{- define "bayplan.selectorLabels" -}}
app.kubernetes.io/name: {{ include "bayplan.name" . | quote }}
app.kubernetes.io/instance: {{ include "bayplan.instance" . | quote }}
{{- end }}
