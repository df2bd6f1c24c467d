# SPDX-License-Identifier: Apache-2.0
"""Pods whose share is a claim (Dynamic Resource Allocation): a node that gives out its GPU by claims, and what a test asks it for."""
import contextlib
import json
import os

from harness import GIB, ROOT, Never, Node, end_idle, idle_is, node, pod, the_cluster, until  # noqa: F401

API = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.mete.dev"
DEPLOY = os.path.join(ROOT, "deploy")
KUBELET = "/var/lib/kubelet"


class Claims:
    """A node's test with claims; what it has of Node, and more."""

    def __init__(self, here):
        self.here, self.cluster, self.namespace = here, here.cluster, here.namespace
        self.all = f"{API}/namespaces/{self.namespace}/resourceclaims"

    def __getattr__(self, name):
        return getattr(self.here, name)

    # The API server's objects.

    def slices(self):
        items = self.cluster.get(f"{API}/resourceslices")["items"]
        return [item for item in items if item["spec"]["driver"] == DRIVER]

    def devices(self):
        return [device for item in self.slices() for device in item["spec"].get("devices") or []]

    def await_slices(self, holds, what, besides=0):
        ours = lambda items: [item for item in items.values() if item["spec"]["driver"] == DRIVER]  # noqa: E731
        return self.cluster.until(f"{API}/resourceslices", lambda items: holds(ours(items)), what, besides)

    def await_published(self):
        self.await_slices(lambda items: items and items[0]["spec"].get("devices"), "the node's devices were never published")

    def spec(self, memory=None, compute=None, parameters=None, device_class="mete-share", count=None):
        exactly = {"deviceClassName": device_class}
        amounts = {key: value for key, value in dict(memory=memory, compute=compute).items() if value is not None}
        if amounts:
            exactly["capacity"] = {"requests": amounts}
        if count:
            exactly["count"] = count
        devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
        if parameters:
            devices["config"] = [{"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": parameters}}]
        return {"devices": devices}

    def claim(self, name, **asked):
        """A claim that pods share by its name."""
        self.cluster.ask("POST", self.all, {"metadata": {"name": name}, "spec": self.spec(**asked)})

    def pod(self, name, command=("seen",), claim=None, request=None, restart="Never", **asked):
        """With a claim of its own, or with that one; or with what one of its requests has got."""
        manifest = pod(command=command, restart=restart)
        if claim:
            source = {"resourceClaimName": claim}
        else:
            path = f"{API}/namespaces/{self.namespace}/resourceclaimtemplates"
            self.cluster.ask("POST", path, {"metadata": {"name": name}, "spec": {"spec": self.spec(**asked)}})
            source = {"resourceClaimTemplateName": name}
        manifest["spec"]["resourceClaims"] = [{"name": "g", **source}]
        manifest["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g", **({"request": request} if request else {})}]}
        return self.here.pod(name, manifest)

    # The node's files.

    def records(self):
        """The journal's records, by UID."""
        said = self.cluster.run("sh", "-c", "for file in /run/mete/claims/*; do cat $file 2>/dev/null && echo; done; :")
        return {record["uid"]: record for record in map(json.loads, said.splitlines())}

    def files(self):
        """The CDI files of claims."""
        return self.cluster.run("sh", "-c", "ls /run/cdi /var/run/cdi 2>/dev/null | grep claim | sort -u || :").split()

    def claim_of(self, made):
        """The tenant of a pod's own claim, as `mete ps` names it."""
        statuses = made.get()["status"]["resourceClaimStatuses"]
        return f"{self.namespace}/{statuses[0]['resourceClaimName']}"

    def tenants(self):
        return self.here.meted.ps()

    def await_nothing(self):
        """Of claims nothing is left: no record, file, or tenant."""
        until(lambda: not self.records() and not self.files() and not self.tenants(),
              f"left over: {self.records()} {self.files()} {list(self.tenants())}")

    def await_claims_gone(self):
        self.cluster.until(self.all, lambda claims: not claims, "claims were never gone")


# A token of the DaemonSet's pods names their node; that of a meted beside the node does not.
ANYWHERE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "mete-claims-of-tests"},
            "rules": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"], "resourceNames": [DRIVER], "verbs": ["arbitrary-node:patch"]}]}
BOUND = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "mete-claims-of-tests"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mete-claims-of-tests"},
         "subjects": [{"kind": "ServiceAccount", "name": "mete", "namespace": "mete-system"}]}


def install(cluster):
    """The rights of meted and the classes of devices with claims."""
    for name in ("rbac", "classes"):
        cluster.apply(os.path.join(DEPLOY, "components", "claims", name + ".yaml"), "mete-system")
    for object in (ANYWHERE, BOUND):
        cluster.apply_object(object["kind"], object["metadata"]["name"], json.dumps(object), "mete-system")


@contextlib.contextmanager
def claims(config="", slots=10, **sim):
    """A node whose GPU (4 GiB, unless told otherwise) is given out by claims."""
    asked, cluster = {"slots": slots, "total": 0, **sim}, the_cluster()
    if not idle_is("dra: on\n" + config, **asked):
        end_idle()
        install(cluster)
        # An earlier meted's, which the kubelet would remove half a minute after it has ended.
        cluster.ask("DELETE", f"{API}/resourceslices")
    with node("dra: on\n" + config, **asked) as here:
        made = Claims(here)
        made.await_published()
        yield made
        here.end_pods()
        made.await_nothing()


