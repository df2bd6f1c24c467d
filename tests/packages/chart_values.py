# SPDX-License-Identifier: Apache-2.0
"""The effect of each value of deploy/chart on the manifests: (settings, {path: the value there}); and values that are refused, with words of the
reason."""
POD = "DaemonSet/mete.spec.template.spec."
METED = POD + "containers.[meted]."
INSTALL = POD + "initContainers.[install]."
ENV = METED + "env."
CONFIG = 'ConfigMap/mete.data."config.yaml".mete.'
OWN_NODE = "ValidatingAdmissionPolicy/mete-own-node"


def flag(name, value, variable, said=None):
    return [f"{name}={value}"], {f"{ENV}[{variable}].value": said or value}


VALUES = [
    (["global.imageRegistry=mirror.example/all"], {METED + "image": "mirror.example/all/mete:0.1.0", INSTALL + "image": "mirror.example/all/mete:0.1.0"}),
    (["image.repository=registry.example/mete"], {METED + "image": "registry.example/mete:0.1.0"}),
    (["image.tag=9.9"], {METED + "image": "mete:9.9", INSTALL + "image": "mete:9.9"}),
    (["image.pullPolicy=Always"], {METED + "imagePullPolicy": "Always", INSTALL + "imagePullPolicy": "Always"}),
    (['imagePullSecrets=[{"name":"key"}]'], {POD + "imagePullSecrets": [{"name": "key"}]}),
    (["nameOverride=gpus"], {"DaemonSet/gpus.spec.selector.matchLabels": {"app.kubernetes.io/name": "gpus"}, "DaemonSet/mete": None}),
    (["namespace.create=true"], {'Namespace/mete-system.metadata.labels."pod-security.kubernetes.io/enforce"': "privileged"}),
    (['nodeSelector={"pool":"gpu","mete.dev/shared":null}'], {POD + "nodeSelector": {"pool": "gpu"}}),
    (['affinity={"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]}}'],
     {POD + "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}),
    (['tolerations=[{"key":"nvidia.com/gpu","operator":"Exists"}]'], {POD + "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}),
    (["priorityClassName=gpu-nodes"], {POD + "priorityClassName": "gpu-nodes"}),
    (["runtimeClassName=nvidia"], {POD + "runtimeClassName": "nvidia"}),
    (['updateStrategy={"type":"OnDelete","rollingUpdate":null}'], {"DaemonSet/mete.spec.updateStrategy": {"type": "OnDelete"}}),
    (['updateStrategy={"rollingUpdate":{"maxUnavailable":"25%"}}'], {"DaemonSet/mete.spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%"}}}),
    (['resources={"limits":{"memory":"1Gi"}}'], {METED + "resources.limits.memory": "1Gi", METED + "resources.requests.cpu": "50m"}),
    (['installResources={"limits":{"memory":"64Mi"}}'], {INSTALL + "resources.limits.memory": "64Mi"}),
    (['podAnnotations={"a":"b"}'], {"DaemonSet/mete.spec.template.metadata.annotations.a": "b"}),
    (['podLabels={"a":"b"}'], {"DaemonSet/mete.spec.template.metadata.labels.a": "b", "DaemonSet/mete.spec.selector.matchLabels.a": None}),
    (['podSecurityContext={"fsGroup":7}'], {POD + "securityContext.fsGroup": 7}),
    (['securityContext={"readOnlyRootFilesystem":false}'], {METED + "securityContext": {"privileged": True, "readOnlyRootFilesystem": False}}),
    (['extraArgs=["--verbose"]'], {METED + "command.[--verbose]": "--verbose"}),
    (['extraEnv=[{"name":"A","value":"b"}]'], {ENV + "[A].value": "b", ENV + "[NODE_NAME].valueFrom.fieldRef.fieldPath": "spec.nodeName"}),
    (["serviceAccount.create=false"], {"ServiceAccount/mete": None, POD + "serviceAccountName": "mete"}),
    (["serviceAccount.name=own"], {"ServiceAccount/own.kind": "ServiceAccount", POD + "serviceAccountName": "own"}),
    (['serviceAccount.annotations={"a":"b"}'], {"ServiceAccount/mete.metadata.annotations": {"a": "b"}}),
    (["rbac.create=false"], {"ClusterRole/mete": None, "ClusterRoleBinding/mete": None}),
    (["nvidiaDriverRoot=/run/nvidia/driver"], {CONFIG + "driver-root": "/host/run/nvidia/driver", CONFIG + "host-driver-root": "/run/nvidia/driver"}),
    (["kubeletRootDir=/var/lib/k0s/kubelet"],
     {CONFIG + "kubelet-folder": "/var/lib/k0s/kubelet", METED + "volumeMounts.[device-plugins].mountPath": "/var/lib/k0s/kubelet/device-plugins",
      POD + "volumes.[pod-resources].hostPath.path": "/var/lib/k0s/kubelet/pod-resources"}),
    (["cdiRoot=/etc/cdi"], {CONFIG + "cdi-folder": "/etc/cdi", METED + "volumeMounts.[cdi].mountPath": "/etc/cdi", POD + "volumes.[cdi].hostPath.path": "/etc/cdi"}),
    (["mete.resource=example.com/gpu"], {CONFIG + "resource": "example.com/gpu"}),
    (["mete.counted=slots"], {CONFIG + "counted": "slots"}),
    (["mete.slots=7"], {CONFIG + "slots": 7}),
    (["mete.share.memory=10%"], {CONFIG + "share": {"memory": "10%"}}),
    (["mete.most.weight=7"], {CONFIG + "most": {"weight": 7}}),
    (["mete.domain=example.com"], {CONFIG + "domain": "example.com"}),
    (["resourceName=example.com/gpu"], {CONFIG + "resource": "example.com/gpu"}),
    (["devicePlugin.deviceSplitCount=5"], {CONFIG + "slots": 5}),
    (["devicePlugin.deviceMemoryScaling=1.5"], {CONFIG + "overcommit": "150%"}),
    (["config.map.usual=mete: {slots: 3}"], {"ConfigMap/mete.data.usual.mete": {
        "slots": 3, "driver-root": "/host", "host-driver-root": "/", "libraries": "/var/lib/mete/current", "metrics": ":9400", "health": ":9401"},
        METED + "command.[/etc/mete]": "/etc/mete", ENV + "[FALLBACK_STRATEGIES].value": "named,single"}),
    (["config.name=theirs"], {"ConfigMap/mete": None, POD + "volumes.[config].configMap.name": "theirs", METED + "startupProbe": None}),
    (["config.name=theirs", "config.default=usual"], {ENV + "[DEFAULT_CONFIG].value": "usual"}),
    (["config.name=theirs", 'config.fallbackStrategies=["empty"]'], {ENV + "[FALLBACK_STRATEGIES].value": "empty"}),
    (["migManager.config.name=default-mig-parted-config"], {
        METED + "command.[/etc/mete-mig/config.yaml]": "/etc/mete-mig/config.yaml", METED + "volumeMounts.[mig-config].mountPath": "/etc/mete-mig",
        POD + "volumes.[mig-config].configMap.name": "default-mig-parted-config"}),
    (["mps.root=/run/nvidia/mps"], {
        ENV + "[MPS_ROOT].value": "/run/nvidia/mps", METED + "volumeMounts.[mps].mountPath": "/run/nvidia/mps", METED + "volumeMounts.[mps].mountPropagation": "Bidirectional", POD + "volumes.[mps].hostPath.path": "/run/nvidia/mps"}),
    flag("compatWithCPUManager", "true", "PASS_DEVICE_SPECS"),
    flag("migStrategy", "mixed", "MIG_STRATEGY"),
    flag("failOnInitError", "false", "FAIL_ON_INIT_ERROR"),
    flag("deviceListStrategy", "envvar", "DEVICE_LIST_STRATEGY"),
    flag("deviceListStrategy", '["cdi-cri","envvar"]', "DEVICE_LIST_STRATEGY", "cdi-cri,envvar"),
    flag("deviceIDStrategy", "index", "DEVICE_ID_STRATEGY"),
    flag("deviceDiscoveryStrategy", "nvml", "DEVICE_DISCOVERY_STRATEGY"),
    flag("gdrcopyEnabled", "true", "GDRCOPY_ENABLED"),
    flag("gdsEnabled", "true", "GDS_ENABLED"),
    flag("mofedEnabled", "true", "MOFED_ENABLED"),
    (["claims.enabled=true"], {CONFIG + "dra": "on", CONFIG + "resource": None, "DeviceClass/mete-share.kind": "DeviceClass",
                               POD + "volumes.[plugins].hostPath.path": "/var/lib/kubelet/plugins"}),
    (["simulated.enabled=true"], {ENV + "[METE_SIM_DIR].value": "/dev/shm/mete-sim", METED + "volumeMounts.[host]": None, CONFIG + "driver-root": None}),
    (["metrics.enabled=false"], {CONFIG + "metrics": None, METED + "ports.[metrics]": None, "NetworkPolicy/mete-metrics.spec.ingress": None}),
    (["metrics.port=9500"], {CONFIG + "metrics": ":9500", METED + "ports.[metrics].containerPort": 9500,
                             "NetworkPolicy/mete-metrics.spec.ingress": [{"from": [
                                 {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
                                 {"namespaceSelector": {"matchLabels": {"mete.dev/scrapes": "true"}}}], "ports": [{"port": 9500}]}],
                             'DaemonSet/mete.spec.template.metadata.annotations."prometheus.io/port"': "9500"}),
    (["health.port=9501"], {CONFIG + "health": ":9501", METED + "ports.[health].containerPort": 9501}),
    (["podMonitor.enabled=true"], {"PodMonitor/mete.spec.podMetricsEndpoints": [
        {"port": "metrics", "interval": "15s", "honorLabels": True, "relabelings": [{"targetLabel": "job", "replacement": "mete"}]}]}),
    (["podMonitor.enabled=true", "podMonitor.interval=5s"], {"PodMonitor/mete.spec.podMetricsEndpoints": [
        {"port": "metrics", "interval": "5s", "honorLabels": True, "relabelings": [{"targetLabel": "job", "replacement": "mete"}]}]}),
    (["podMonitor.enabled=true", 'podMonitor.labels={"release":"x"}'], {"PodMonitor/mete.metadata.labels.release": "x"}),
    (["serviceMonitor.enabled=true", "metrics.port=9500"], {"Service/mete.spec.ports.[metrics].port": 9500, "ServiceMonitor/mete.kind": "ServiceMonitor"}),
    (["serviceMonitor.enabled=true", "serviceMonitor.interval=5s"], {"ServiceMonitor/mete.spec.endpoints": [{"port": "metrics", "interval": "5s", "honorLabels": True}]}),
    (["serviceMonitor.enabled=true", 'serviceMonitor.labels={"release":"x"}'], {"ServiceMonitor/mete.metadata.labels.release": "x"}),
    (["prometheusRule.enabled=true"], {"PrometheusRule/mete.kind": "PrometheusRule"}),
    (["prometheusRule.enabled=true", 'prometheusRule.labels={"release":"x"}'], {"PrometheusRule/mete.metadata.labels.release": "x"}),
    (["dashboards.enabled=true"], {"ConfigMap/mete-dashboards.metadata.labels.grafana_dashboard": "1"}),
    (["dashboards.enabled=true", 'dashboards.labels={"grafana_dashboard":"yes"}'], {"ConfigMap/mete-dashboards.metadata.labels.grafana_dashboard": "yes"}),
    (["page.enabled=true", "page.port=9502", "page.believed=10s", "page.audience=mete.dev"],
     {METED + "command.[:9502]": ":9502", METED + "command.[10s]": "10s", METED + "command.[--page-audience]": "--page-audience", METED + "command.[mete.dev]": "mete.dev",
      METED + "ports.[page].containerPort": 9502, "ClusterRoleBinding/mete-page.roleRef.name": "system:auth-delegator"}),
    (["page.enabled=true", "page.tlsSecret=shown"], {
        METED + "command.[/etc/mete-tls/tls.key]": "/etc/mete-tls/tls.key", METED + "volumeMounts.[page-tls].mountPath": "/etc/mete-tls",
        POD + "volumes.[page-tls].secret.secretName": "shown"}),
    (["networkPolicy.enabled=false"], {"NetworkPolicy/mete-metrics": None}),
    (["admissionPolicies.enabled=false"], {OWN_NODE: None, "ValidatingAdmissionPolicyBinding/mete-counted": None}),
    (["openshift.enabled=true"], {"ClusterRoleBinding/mete-openshift.roleRef.name": "system:openshift:scc:privileged"}),
    (["selinux.enabled=true"], {INSTALL + "env.[METE_SELINUX].value": "system_u:object_r:container_file_t:s0", INSTALL + "securityContext.privileged": True}),
    (["selinux.enabled=true", "selinux.context=a:b:c:s0"], {INSTALL + "env.[METE_SELINUX].value": "a:b:c:s0"}),
]

REFUSED = [
    ("nodeSelecter.a=b", ["nodeSelecter"]),
    ("mete.slotz=3", ["/mete", "slotz"]),
    ("mete.slots=many", ["/mete/slots"]),
    ("mete.slots=1001", ["/mete/slots", "1,000"]),
    ("mete.share.memmory=1", ["/mete/share", "memmory"]),
    ("mete.driver-root=/x", ["driver-root"]),
    ("image.pullPolicy=Sometimes", ["/image/pullPolicy"]),
    ("image.repository=", ["/image/repository"]),
    ("nvidiaDriverRoot=run", ["/nvidiaDriverRoot"]),
    ("migStrategy=double", ["/migStrategy"]),
    ('deviceListStrategy=["envvar","x"]', ["/deviceListStrategy"]),
    ("config.fallbackStrategies[0]=none", ["/config/fallbackStrategies"]),
    ("config.map.bad=a: [", ["config.map.bad", "not YAML"]),
    ("claims.enabled=perhaps", ["/claims/enabled"]),
    ("metrics.port=70000", ["/metrics/port"]),
    ("page.believed=long", ["/page/believed"]),
    ("podMonitor.interval=often", ["/podMonitor/interval"]),
    ("prometheusRule.enabeld=true", ["/prometheusRule", "enabeld"]),
    ('podMonitor={"enabled":true},serviceMonitor.enabled=true', ["serviceMonitor.enabled", "twice"]),
    ("selinux.context=x", ["/selinux/context"]),
    ('tolerations=[{"keys":"x"}]', ["/tolerations/0", "keys"]),
    ("devicePlugin.deviceMemoryScaling=much", ["/devicePlugin/deviceMemoryScaling"]),
    ("devicePlugin.deviceSplitCount=0", ["/devicePlugin/deviceSplitCount"]),
]
