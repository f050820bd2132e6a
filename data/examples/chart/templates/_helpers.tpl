{{- define "sharelag.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "sharelag.labels" -}}
app.kubernetes.io/name: sharelag
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sharelag.selector" -}}
app.kubernetes.io/name: sharelag
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: serve
{{- end }}

{{/* What every pod has: no account of Kubernetes, no root, and only /tmp and /reports to write to. */}}
{{- define "sharelag.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "sharelag.container" -}}
image: {{ include "sharelag.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* How the cluster is reached: an address and, unless switched off, a file of the Secret. */}}
{{- define "sharelag.input" -}}
- --bootstrap-server
- {{ required "set bootstrapServer, such as kafka-0:9092,kafka-1:9092" .Values.bootstrapServer | quote }}
{{- if .Values.secret.clientProperties }}
- --command-config
- /etc/sharelag/client/client.properties
{{- end }}
{{- range .Values.groups }}
- --group
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "sharelag.clientMount" -}}
{{- if .Values.secret.clientProperties }}
- {name: client, mountPath: /etc/sharelag/client, readOnly: true}
{{- end }}
{{- end }}

{{- define "sharelag.clientVolume" -}}
{{- if .Values.secret.clientProperties }}
- name: client
  secret:
    secretName: {{ .Values.secret.name | quote }}
    defaultMode: 0440
    items: [{key: client.properties, path: client.properties}]
{{- end }}
{{- end }}

{{- define "sharelag.tmpVolume" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmp.sizeLimit | quote }}}
{{- end }}
