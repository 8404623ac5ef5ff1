{{/* Cut at 52 characters: the longest suffix must still fit into the 63 of a DNS label. */}}
{{- define "consort.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $both .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/* What never changes: the selector of a Deployment cannot. */}}
{{- define "consort.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "consort.labels" -}}
{{ include "consort.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "consort.image" -}}
{{- $repository := required "image.repository is required: where your registry keeps the image" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}
