{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- define "mete.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mete.account" -}}
{{ default (include "mete.name" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "mete.labels" -}}
app.kubernetes.io/name: {{ include "mete.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "mete.image" -}}
{{ with .Values.global.imageRegistry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- /* The name of the DRA driver that meted is: of the same domain as resources and annotations. */ -}}
{{- define "mete.driver" -}}
gpu.{{ default "mete.dev" .Values.mete.domain }}
{{- end }}

{{- /* Who may do what of an API group's policy: its binding. */ -}}
{{- define "mete.policy.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "mete.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}

{{- /* A role of the cluster's, for meted. */ -}}
{{- define "mete.bound" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "mete.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
subjects:
- kind: ServiceAccount
  name: {{ include "mete.account" .root }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
