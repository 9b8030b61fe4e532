"""The traps of addresses and certificates: who is called, who may call, and until when."""

from bayplan.doctor.finding import Trap

HTTPS_WITHOUT_CA = Trap(
    "https-without-ca",
    "error",
    "With enableHTTPS and no CA kube-scheduler checks no certificate, without a word: whoever answers decides"
    " where pods go.",
    "all",
    "Set tlsConfig.caFile (or caData) to the CA of the extender's certificate.",
)
HTTPS_SYSTEM_CA = Trap(
    "https-system-ca",
    "warning",
    "Without a CA of its own the certificate is checked against those of the machine, or of the image, that"
    " kube-scheduler runs in: a private one is refused, any public one is believed.",
    "all",
    "Set tlsConfig.caFile (or caData), and `enableHTTPS: true` only with it.",
)
HTTPS_IN_NAME_ONLY = Trap(
    "https-in-name-only",
    "error",
    "The scheme comes from urlPrefix alone: with http:// and enableHTTPS kube-scheduler speaks plain"
    " HTTP, and certificates are not used.",
    "all",
    "Write https:// in urlPrefix, or take enableHTTPS and tlsConfig away.",
)
PLAIN_HTTP = Trap(
    "plain-http",
    "warning",
    "Beyond the machine itself, plain HTTP lets anybody on the way read pods and answer in our place.",
    "all",
    "Use https:// with a CA and a client certificate, or listen on loopback beside kube-scheduler.",
)
TLS_INSECURE = Trap(
    "tls-insecure",
    "warning",
    "`insecure: true` switches the check of the certificate off. Together with a CA, client-go refuses"
    " it, and kube-scheduler does not start.",
    "all",
    "Set tlsConfig.caFile and take `insecure` away.",
)
TLS_HALF_PAIR = Trap(
    "tls-half-pair",
    "error",
    "A certificate without its key, or a key without its certificate, is passed over without a word:"
    " kube-scheduler starts, shows no certificate, and a server that asks for one refuses every call.",
    "all",
    "Give certFile and keyFile, or certData and keyData.",
)
SCHEME_MISMATCH = Trap(
    "scheme-mismatch",
    "error",
    "The server speaks HTTPS and is called with HTTP, or the other way round: every call fails.",
    "all",
    "Let urlPrefix begin with https:// exactly where extender.tls is set.",
)
PATH_MISMATCH = Trap(
    "path-mismatch",
    "error",
    "The verbs are under extender.path of Bayplan's configuration: under another path every verb is unknown.",
    "all",
    "Make the path of urlPrefix and extender.path the same.",
)
ADDRESS_MISMATCH = Trap(
    "address-mismatch",
    "error",
    "Bayplan does not listen where kube-scheduler calls: every call is refused.",
    "all",
    "Make urlPrefix and extender.listen agree; loopback is for a kube-scheduler in the same pod or on the"
    " host.",
)
NO_CLIENT_CERTIFICATE = Trap(
    "no-client-certificate",
    "error",
    "The server asks callers for a certificate (requireClientCert or allowedNames) and kube-scheduler has"
    " none to show: every call fails.",
    "all",
    "Set tlsConfig.certFile and tlsConfig.keyFile.",
)
OPEN_DOOR = Trap(
    "open-door",
    "warning",
    "Whoever reaches the port may ask, and with a bindVerb bind pods: a client certificate is the only way to"
    " know the caller.",
    "all",
    "Set extender.tls with clientCAFile and requireClientCert: true, or listen on 127.0.0.1.",
)
CERTIFICATE_EXPIRED = Trap(
    "certificate-expired",
    "error",
    "A certificate past its end is refused: every call fails, and pods wait.",
    "all",
    "Renew it. kube-scheduler reads a new client certificate by itself, a new CA only when it starts; Bayplan"
    " reads all its files again.",
)
CERTIFICATE_EXPIRING = Trap(
    "certificate-expiring",
    "warning",
    "The certificate ends within 30 days; from then on every call fails, and pods wait.",
    "all",
    "Renew it. kube-scheduler reads a new client certificate by itself, a new CA only when it starts.",
)
CERTIFICATE_UNREADABLE = Trap(
    "certificate-unreadable",
    "error",
    "There is no certificate in it, so that no handshake can work.",
    "all",
    "Give PEM: a file that begins with -----BEGIN CERTIFICATE-----, or its base64 in caData and certData.",
)

ALL = tuple(value for value in vars().values() if isinstance(value, Trap))
