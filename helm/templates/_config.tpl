{{/* The configuration file: what values give, and what only the chart can know. */}}
{{- define "consort.config" -}}
{{- $given := .Values.config -}}
{{- $seconds := int .Values.gateway.maxStreamSeconds -}}
{{- $server := dict "host" "0.0.0.0" "port" 8080 "adminHost" "0.0.0.0" "adminPort" 9464
      "maxStreamSeconds" $seconds "drainSeconds" $seconds -}}
{{- $store := dict "url" "${CONSORT_STORE_URL}" "spoolDirectory" "/var/lib/consort/spool"
      "spoolMaxBytes" (mul .Values.gateway.spoolMaxMiB 1048576) -}}
{{- $chart := dict
      "server" (merge $server (default dict $given.server))
      "store" (merge $store (default dict $given.store)) -}}
{{- toYaml (merge $chart $given) -}}
{{- end }}
