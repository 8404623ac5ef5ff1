{{/*
The one pod of all workloads. Takes root, component, command, values (of the workload) and graceSeconds.
It meets the restricted Pod Security Standard and writes to /var/lib/consort and /tmp only.
*/}}
{{- define "consort.pod" -}}
{{- $root := .root -}}
{{- $secrets := $root.Values.secrets -}}
metadata:
  labels:
    {{- include "consort.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The configuration is read at the start: a new one is a new pod.
    checksum/config: {{ include "consort.config" $root | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "consort.fullname" $root }}
  automountServiceAccountToken: false
  # A service named consort would set CONSORT_* variables.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .graceSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- if eq .component "gateway" }}
  topologySpreadConstraints:
    {{- range tuple "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      matchLabelKeys: [pod-template-hash]
      labelSelector:
        matchLabels:
          {{- include "consort.selector" $root | nindent 10 }}
          app.kubernetes.io/component: gateway
    {{- end }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "consort.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ .command }}, --config, /etc/consort/consort.yaml]
      env:
        - name: CONSORT_STORE_URL
          valueFrom:
            secretKeyRef:
              name: {{ required "secrets.redis.name is required: the secret that holds the url of Redis" $secrets.redis.name }}
              key: {{ $secrets.redis.key }}
        {{- if $secrets.shared.name }}
        - name: CONSORT_SECRET
          valueFrom:
            secretKeyRef:
              name: {{ $secrets.shared.name }}
              key: {{ $secrets.shared.key }}
        {{- end }}
        {{- with $root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $secrets.environment }}
      envFrom:
        {{- range . }}
        - secretRef: { name: {{ . }} }
        {{- end }}
      {{- end }}
      ports:
        {{- if eq .component "gateway" }}
        - { name: http, containerPort: 8080 }
        {{- end }}
        - { name: admin, containerPort: 9464 }
      # Alive is an event loop that answers, nothing more: to restart a pod because Redis or a model is away, or
      # because it is busy, makes things worse.
      startupProbe:
        httpGet: { path: /startupz, port: admin }
        periodSeconds: 2
        failureThreshold: 30
      livenessProbe:
        httpGet: { path: /livez, port: admin }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: admin }
        periodSeconds: 3
        timeoutSeconds: 3
        failureThreshold: 2
      {{- if eq .component "gateway" }}
      # Requests still come until every proxy has heard that the pod goes; the signal is sent after that.
      lifecycle:
        preStop:
          sleep: { seconds: {{ $root.Values.gateway.preStopSeconds }} }
      {{- end }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        # The folder, not the file: a mounted file is never updated.
        - { name: config, mountPath: /etc/consort, readOnly: true }
        - { name: state, mountPath: /var/lib/consort }
        - { name: tmp, mountPath: /tmp }
        {{- range $secrets.files }}
        - { name: secret-{{ . }}, mountPath: /etc/consort-secrets/{{ . }}, readOnly: true }
        {{- end }}
        {{- range .values.volumes }}
        - { name: claim-{{ .name }}, mountPath: {{ .mountPath }}, readOnly: {{ .readOnly | default false }} }
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "consort.fullname" $root }} }
    - name: state
      # Room for the spool at its bound, and for the file that is being written.
      emptyDir: { sizeLimit: {{ add $root.Values.gateway.spoolMaxMiB 64 }}Mi }
    - name: tmp
      emptyDir: { sizeLimit: 64Mi }
    {{- range $secrets.files }}
    - name: secret-{{ . }}
      secret: { secretName: {{ . }} }
    {{- end }}
    {{- range .values.volumes }}
    - name: claim-{{ .name }}
      persistentVolumeClaim: { claimName: {{ .claim }} }
    {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end }}
