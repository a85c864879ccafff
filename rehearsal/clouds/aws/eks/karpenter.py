"""Karpenter on EKS, as far as it makes nodes for pods that wait, and ends those that are empty or
whose NodePool goes. Nodes whose pods would fit elsewhere, and those that differ from their pool,
stay.

It acts where its Deployment runs, with the rights of the role that its pods have. Source:
kubernetes-sigs/karpenter, pkg/controllers; aws/karpenter-provider-aws, pkg/controllers/nodeclass.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.route_tables import nat_gateway_of
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.ec2.user_data import NodeConfig, node_config, scripts_of
from slicewright.rehearsal.clouds.aws.eks import karpenter_objects as objects
from slicewright.rehearsal.clouds.aws.eks.autoscaler import empty_nodes
from slicewright.rehearsal.clouds.aws.eks.checks import kubelet_version
from slicewright.rehearsal.clouds.aws.eks.installed_controllers import clusters
from slicewright.rehearsal.clouds.aws.eks.karpenter_account import Account, Refused, Services
from slicewright.rehearsal.clouds.aws.eks.nodes import (
    AL2023,
    DRIVER,
    RUNTIME,
    al2023_kernel,
    common_labels,
)
from slicewright.rehearsal.clouds.aws.machines import machines, reserved_memory_ki
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.machines import reserved_cpu_millis
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.node_object import NodeDetails, node_object
from slicewright.rehearsal.clouds.core.scaling import Group, Limits, is_usable, scale_up, waiting

_NUMBER = "rehearsal.slicewright.io/index"
"""Annotation of a NodeClaim: its number in the pool, by which faults.json names its node."""


class Karpenter:
    def __init__(
        self,
        context: Context,
        services: Services,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._services = services
        self._clock = clock
        self._empty_since: dict[str, float] = {}
        """Node's name -> seconds of the clock."""

    def look_around(self) -> None:
        for cluster in clusters(self._context):
            settings = objects.settings_of(cluster.deployments())
            if settings is None or settings.cluster != cluster.name:
                continue
            role = cluster.role(settings.identity)
            if role is None:
                continue
            account = Account(
                services=self._services, role=role, region=cluster.region, cluster=cluster.name
            )
            _Pass(
                context=self._context,
                api=cluster.api,
                account=account,
                overlays=settings.overlays,
                version=cluster.record["cluster"]["version"],
                now=self._clock(),
                empty_since=self._empty_since,
            ).run()


@dataclass(kw_only=True)
class _Pass:
    """One look at one cluster, and a step of each thing that is to be done."""

    context: Context
    api: NodeApi
    account: Account
    overlays: bool
    version: str
    now: float
    empty_since: dict[str, float]
    classes: dict[str, JsonObject] = field(init=False)
    pools: list[JsonObject] = field(init=False)
    claims: list[JsonObject] = field(init=False)
    nodes: dict[str, JsonObject] = field(init=False)

    def run(self) -> None:
        self.classes = {c["metadata"]["name"]: c for c in self.api.listed(objects.CLASSES)}
        self.pools = self.api.listed(objects.POOLS)
        self.claims = self.api.listed(objects.CLAIMS)
        self.nodes = {n["metadata"]["name"]: n for n in self.api.listed("/api/v1/nodes")}
        for claim in self.claims:
            if objects.is_going(claim):
                self._end(claim)
            elif "providerID" not in (claim.get("status") or {}):
                self._launch(claim)
            else:
                self._look_after(claim)
        for node_class in self.classes.values():
            self._prepare(node_class)
        for pool in self.pools:
            self._judge(pool)
        pods = self.api.listed("/api/v1/pods")
        self._grow(waiting(pods))
        self._shrink(pods)

    def _prepare(self, node_class: JsonObject) -> None:
        """Makes what a class needs in the account, or takes it back."""
        name = node_class["metadata"]["name"]
        path = f"{objects.CLASSES}/{name}"
        used = any(c["spec"]["nodeClassRef"]["name"] == name for c in self.claims)
        if objects.is_going(node_class):
            if not used:
                try:
                    self.account.forget(node_class)
                except (Refused, CloudError) as e:
                    self._say(path, node_class, "Ready", met=False, message=str(e))
                    return
                self.api.merge(path, {"metadata": {"finalizers": []}})
            return
        if objects.CLASS_TERMINATION not in (node_class["metadata"].get("finalizers") or ()):
            self.api.merge(path, {"metadata": {"finalizers": [objects.CLASS_TERMINATION]}})
        try:
            self.account.make_profile(node_class)
        except (Refused, CloudError) as e:
            self._say(path, node_class, "Ready", met=False, message=str(e))
        else:
            self._say(path, node_class, "Ready", met=True)

    def _judge(self, pool: JsonObject) -> None:
        node_class = self.classes.get(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"])
        met = node_class is not None and objects.has(node_class, "Ready")
        path = f"{objects.POOLS}/{pool['metadata']['name']}"
        message = "" if met else "NodeClassReady=False"
        self._say(path, pool, "Ready", met=met, message=message)

    def _grow(self, pods: Sequence[JsonObject]) -> None:
        able = [
            pool
            for pool in self.pools
            if objects.has(pool, "Ready")
            and not objects.is_going(pool)
            and objects.instance_types(pool)
        ]
        if not pods or not able:
            return
        overlays = self.api.listed(objects.OVERLAYS) if self.overlays else []
        limits = {
            p["metadata"]["name"]: Limits(total=objects.most_nodes(p), per_zone=None) for p in able
        }
        groups = [self._group(pool, overlays) for pool in able]
        by_name = {pool["metadata"]["name"]: pool for pool in able}
        for step in scale_up(pods, groups, limits):
            for _ in range(step.added):
                self._claim(by_name[step.pool])

    def _group(self, pool: JsonObject, overlays: Sequence[JsonObject]) -> Group:
        mine = self._claims_of(pool)
        usable = [c for c in mine if self._is_usable(c)]
        labels = objects.labels_of(pool, objects.instance_types(pool)[0])
        return Group(
            pool=pool["metadata"]["name"],
            zone="",
            node=objects.new_node(pool, overlays, labels),
            size=len(mine),
            joining=len(mine) - len(usable),
        )

    def _claim(self, pool: JsonObject) -> None:
        numbers = {int(c["metadata"]["annotations"][_NUMBER]) for c in self._claims_of(pool)}
        number = next(n for n in range(len(numbers) + 1) if n not in numbers)
        name = f"{pool['metadata']['name']}-{secrets.token_hex(3)[:5]}"
        claim = objects.node_claim(pool, name, objects.instance_types(pool)[0])
        claim["metadata"]["annotations"] = {_NUMBER: str(number)}
        self.api.create(objects.CLAIMS, claim)
        self.claims.append(claim)

    def _launch(self, claim: JsonObject) -> None:
        """What EC2 refuses is asked for again at the next look."""
        path = f"{objects.CLAIMS}/{claim['metadata']['name']}"
        node_class = self.classes.get(claim["spec"]["nodeClassRef"]["name"])
        pool = claim["metadata"]["labels"][objects.POOL_LABEL]
        node_pool = next((p for p in self.pools if p["metadata"]["name"] == pool), None)
        if node_class is None or node_pool is None:
            return
        try:
            instance = self.account.launch(
                node_class,
                pool=pool,
                types=objects.instance_types(node_pool),
                spot=objects.capacity_type(node_pool) == "spot",
            )
        except (Refused, CloudError) as e:
            self._say(path, claim, "Launched", met=False, message=str(e))
            return
        zone = instance["Placement"]["AvailabilityZone"]
        status = {
            "providerID": f"aws:///{zone}/{instance['InstanceId']}",
            "nodeName": instance["PrivateDnsName"],
            "imageID": instance["ImageId"],
            "conditions": [objects.condition("Launched", met=True)],
        }
        self.api.merge(f"{path}/status", {"status": status})

    def _look_after(self, claim: JsonObject) -> None:
        """Of an instance that runs: its node registers, and becomes one for pods."""
        status, path = claim["status"], f"{objects.CLAIMS}/{claim['metadata']['name']}"
        instance = self.account.instance(status["providerID"].rpartition("/")[2])
        if instance is None:
            self.api.delete(path)
            return
        name = status["nodeName"]
        if name not in self.nodes:
            self.api.register(self._node(claim, instance))
        elif self._is_usable(claim) and not objects.has(claim, "Initialized"):
            labels = dict.fromkeys(("karpenter.sh/registered", "karpenter.sh/initialized"), "true")
            self.api.update(name, labels=labels, add_taints=[], remove_taints=[])
            self._say(path, claim, "Initialized", met=True)

    def _end(self, claim: JsonObject) -> None:
        """The node is drained, then the instance ends, then the claim goes."""
        status = claim.get("status") or {}
        if "nodeName" in status:
            self.api.remove(status["nodeName"])
        if "providerID" in status:
            instance = self.account.instance(status["providerID"].rpartition("/")[2])
            if instance is not None:
                try:
                    self.account.terminate(instance)
                except Refused:
                    return
        path = f"{objects.CLAIMS}/{claim['metadata']['name']}"
        self.api.merge(path, {"metadata": {"finalizers": []}})

    def _shrink(self, pods: Sequence[JsonObject]) -> None:
        by_pool = {pool["metadata"]["name"]: pool for pool in self.pools}
        empty = empty_nodes(self.nodes.values(), pods)
        for claim in self.claims:
            name = (claim.get("status") or {}).get("nodeName")
            pool = by_pool.get(claim["metadata"]["labels"][objects.POOL_LABEL])
            if name not in empty or pool is None or not objects.has(claim, "Initialized"):
                self.empty_since.pop(str(name), None)
                continue
            since = self.empty_since.setdefault(name, self.now)
            after_s = objects.empty_after_s(pool)
            if after_s is not None and self.now - since >= after_s:
                self.api.delete(f"{objects.CLAIMS}/{claim['metadata']['name']}")
                del self.empty_since[name]

    def _node(self, claim: JsonObject, instance: JsonObject) -> JsonObject:
        machine = machines()[instance["InstanceType"]]
        name, spec = instance["PrivateDnsName"], claim["spec"]
        region, labels = self.account.region, claim["metadata"]["labels"]
        subnet = find_subnet(self.context, region, instance["SubnetId"])
        assert subnet is not None
        pods = machine.pods or 110
        gpus: JsonObject | None = None
        if machine.gpu:
            gpus = {
                "cloud": "eks",
                "gpu_model": machine.gpu,
                "gpu_count": machine.gpu_count,
                # Karpenter takes the accelerated image for machines with GPUs.
                "driver_version": DRIVER,
            }
            index = int(claim["metadata"]["annotations"][_NUMBER])
            pool = labels[objects.POOL_LABEL]
            if scripts := self._scripts(claim):
                gpus["user_data"] = scripts
            if fault := self.context.faults.node_fault(pool=pool, labels=labels, index=index):
                gpus["fault"] = fault
        return node_object(
            NodeDetails(
                name=name,
                labels=common_labels(self.account.cluster, region, subnet, machine, name)
                | labels
                | dict(self._config(claim).labels),
                taints=[*spec.get("taints", ()), *spec.get("startupTaints", ())],
                provider_id=claim["status"]["providerID"],
                vcpu=machine.vcpu,
                reserved_cpu_millis=reserved_cpu_millis(machine.vcpu),
                memory_ki=machine.memory_ki,
                reserved_memory_ki=reserved_memory_ki(pods),
                disk_gb=100,
                pods=pods,
                kubelet_version=f"v{kubelet_version(self.version)}",
                os_image=AL2023,
                kernel=al2023_kernel(self.version),
                runtime=RUNTIME,
                architecture=machine.architecture,
                machine=gpus,
                boots=bool(gpus and gpus.get("user_data")),
                shared_address=nat_gateway_of(self.context, region, instance["SubnetId"]),
            )
        )

    def _user_data(self, claim: JsonObject) -> str:
        node_class = self.classes.get(claim["spec"]["nodeClassRef"]["name"]) or {"spec": {}}
        return str(node_class["spec"].get("userData") or "")

    def _scripts(self, claim: JsonObject) -> list[str]:
        return scripts_of(self._user_data(claim))

    def _config(self, claim: JsonObject) -> NodeConfig:
        text = self._user_data(claim)
        return node_config({"UserData": base64.b64encode(text.encode())} if text else {})

    def _claims_of(self, pool: JsonObject) -> list[JsonObject]:
        name = pool["metadata"]["name"]
        return [c for c in self.claims if c["metadata"]["labels"][objects.POOL_LABEL] == name]

    def _is_usable(self, claim: JsonObject) -> bool:
        """Whether its node is Ready and has lost its startup taints."""
        node = self.nodes.get((claim.get("status") or {}).get("nodeName", ""))
        if node is None:
            return False
        startup = {t["key"] for t in claim["spec"].get("startupTaints", ())}
        taint_keys = {t["key"] for t in node["spec"].get("taints") or ()}
        return is_usable(node, accelerator="") and not startup & taint_keys

    def _say(
        self, path: str, resource: JsonObject, kind: str, *, met: bool, message: str = ""
    ) -> None:
        """Sets a condition of its status, if it is not so already."""
        if objects.has(resource, kind, met=met):
            return
        conditions = [
            c for c in (resource.get("status") or {}).get("conditions") or () if c["type"] != kind
        ]
        new = [*conditions, objects.condition(kind, met=met, message=message)]
        self.api.merge(f"{path}/status", {"status": {"conditions": new}})
        resource["status"] = {**(resource.get("status") or {}), "conditions": new}
