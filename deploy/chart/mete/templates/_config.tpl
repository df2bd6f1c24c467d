{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* The host as meted's pod sees it, and where meted answers: keys of `mete`. */ -}}
{{- define "mete.places" -}}
{{- if not .Values.simulated.enabled }}
driver-root: {{ printf "/host%s" (trimSuffix "/" .Values.nvidiaDriverRoot) }}
host-driver-root: {{ .Values.nvidiaDriverRoot }}
{{- end }}
libraries: /var/lib/mete/current
{{- if .Values.metrics.enabled }}
metrics: {{ printf ":%v" .Values.metrics.port | quote }}
{{- end }}
health: {{ printf ":%v" .Values.health.port | quote }}
{{- if ne .Values.kubeletRootDir "/var/lib/kubelet" }}
kubelet-folder: {{ .Values.kubeletRootDir }}
{{- end }}
{{- if ne .Values.cdiRoot "/var/run/cdi" }}
cdi-folder: {{ .Values.cdiRoot }}
{{- end }}
{{- end }}

{{- /* What a configuration of mete's says where GPUs are given out by claims: a key of `mete`. */ -}}
{{- define "mete.by-claims" -}}
{{- if .Values.claims.enabled }}dra: "on"{{ end }}
{{- end }}

{{- /* The key `mete` of the values, with HAMi's names in their places. */ -}}
{{- define "mete.settings" -}}
{{- $mete := deepCopy .Values.mete }}
{{- with .Values.resourceName }}{{ $_ := set $mete "resource" . }}{{ end }}
{{- with .Values.devicePlugin.deviceSplitCount }}{{ $_ := set $mete "slots" (int .) }}{{ end }}
{{- with .Values.devicePlugin.deviceMemoryScaling }}{{ $_ := set $mete "overcommit" (printf "%d%%" (int (round (mulf (float64 .) 100) 0))) }}{{ end }}
{{- if .Values.claims.enabled }}{{ $mete = merge (include "mete.by-claims" . | fromYaml) (omit $mete "resource" "counted") }}{{ end }}
{{- toYaml (merge (include "mete.places" . | fromYaml) $mete) }}
{{- end }}

{{- /* Whether meted reads a folder of named configurations. */ -}}
{{- define "mete.named" -}}
{{- if or .Values.config.map .Values.config.name }}yes{{ end }}
{{- end }}

{{- /* Whether every configuration is mete's own: then meted answers at `metrics` and `health`. */ -}}
{{- define "mete.answers" -}}
{{- if .Values.config.name }}
{{- else }}
{{- $all := true }}
{{- range .Values.config.map }}{{ if not (hasKey (fromYaml .) "mete") }}{{ $all = false }}{{ end }}{{ end }}
{{- if $all }}yes{{ end }}
{{- end }}
{{- end }}

{{- /* Whether a configuration may be mete's own: those of a ConfigMap that is there already are not known here. */ -}}
{{- define "mete.some" -}}
{{- $some := or .Values.config.name (empty .Values.config.map) }}
{{- range .Values.config.map }}{{ if hasKey (fromYaml .) "mete" }}{{ $some = true }}{{ end }}{{ end }}
{{- if $some }}yes{{ end }}
{{- end }}

{{- /* Where meted finds a folder of the node (a dict: root, said, usual): where the values say, by `mete.places`. NVIDIA's form has no word for it,
       and there meted looks where the folder usually is. */ -}}
{{- define "mete.seen" -}}
{{- $at := list }}
{{- if include "mete.some" .root }}{{ $at = append $at .said }}{{ end }}
{{- if not (include "mete.answers" .root) }}{{ $at = append $at .usual }}{{ end }}
{{- uniq $at | toJson }}
{{- end }}

{{- /* Flags of NVIDIA's device plugin, as its variables. */ -}}
{{- define "mete.flags" -}}
{{- $flags := dict "compatWithCPUManager" "PASS_DEVICE_SPECS" "migStrategy" "MIG_STRATEGY" "failOnInitError" "FAIL_ON_INIT_ERROR"
    "deviceListStrategy" "DEVICE_LIST_STRATEGY" "deviceIDStrategy" "DEVICE_ID_STRATEGY" "deviceDiscoveryStrategy" "DEVICE_DISCOVERY_STRATEGY"
    "gdrcopyEnabled" "GDRCOPY_ENABLED" "gdsEnabled" "GDS_ENABLED" "mofedEnabled" "MOFED_ENABLED" }}
{{- range $value, $variable := $flags }}
{{- $said := index $.Values $value }}
{{- if not (kindIs "invalid" $said) }}
- name: {{ $variable }}
  value: {{ kindIs "slice" $said | ternary (join "," $said) (toString $said) | quote }}
{{- end }}
{{- end }}
{{- end }}
