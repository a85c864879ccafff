"""Stack files at random, made from the schema's own models and the catalog: most keys are left
out, values are mostly what people write, and now and then the longest, largest or oddest allowed.

Keys that contradict others are taken out again as `check` names them, so that it accepts what is
drawn. Left to other tests is what lies in the cluster alone, and what must be there before.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from hypothesis.control import assume, reject
from pydantic import BaseModel

from slicewright.infra import catalog, plan, stack_file
from slicewright.infra.catalog import Cloud, Machine
from slicewright.infra.plan import ChangeEffect, buildable
from slicewright.infra.stack_file.schema.constraints import (
    Cidr,
    DnsLabel,
    IntRange,
    Pattern,
    QualifiedName,
)
from slicewright.infra.stack_file.schema.gke.capacity import GkeOnDemand, GkeReservation, GkeSpot
from slicewright.infra.stack_file.schema.node_shares import ShareOfNodes
from slicewright.infra.stack_file.schema.pools import Autoscaled, Fixed
from slicewright.rehearsal.clouds.aws.eks.addons import ADDON_VERSIONS
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT

_LEFT_OUT = frozenset(
    {
        # In the cluster alone.
        *("gpu_operator", "fractional", "workloads", "node_agent", "image", "admin_groups"),
        *(
            "pod_guard",
            "metrics_from",
            "verify_timeout_minutes",
            "allow_unlisted",
            "demand",
            "node_pools.rollout",
        ),
        "cluster.existing",
        # Drawn of what there is: `_of_account`.
        *("cluster.pod_identities", "cluster.addons.version", "cluster.addons.settings"),
    }
)
_NOT_DRAWN: frozenset[type[BaseModel]] = frozenset(
    # Drawn once all zones are known: `_in_existing_subnets`.
    {stack_file.ExistingNetwork}
)
ROLES = ("pods-a", "pods-b")
"""Names of roles that the account must have for pods."""
_SETTINGS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "coredns": ({"replicaCount": 3}, {}),
    "vpc-cni": ({"env": {"WARM_IP_TARGET": "2"}},),
}
"""Of add-ons; for others there are none."""
_MODELS: Mapping[Cloud, type[BaseModel]] = {"gke": stack_file.GkeFleet, "eks": stack_file.EksFleet}
IN_PLACE = ChangeEffect.IN_PLACE
_RARELY = 6
"""One in so many optional keys is written."""
_ROUNDS = 20
"""In which `check` may name keys to be taken out."""
_MOST_NODES = 4
_MOST_POOLS = 3
_TEXT = st.characters(codec="utf-8", exclude_categories=("C", "Z"))
_LABEL_KEYS = ("team", "example.com/team", "a" * 63, f"{'b' * 31}.{'c' * 31}/{'D' * 60}", "x_.y")
_CIDRS = ("10.0.0.0/8", "203.0.113.0/24", "192.0.2.7/32", "0.0.0.0/0", "2001:db8::/32")


@st.composite
def stack_files(draw: st.DrawFn, cloud: Cloud) -> dict[str, Any]:
    """Values of `slicewright:fleet` that `check` accepts and `up` can build."""
    writer = _Writer(draw, cloud, draw(st.sampled_from(_regions(cloud))))
    raw = accepted(writer.object_of(_MODELS[cloud], ()) | {"cloud": cloud})
    if cloud == "eks":
        writer.of_account(raw["cluster"])
        raw = accepted(raw)
        if draw(st.integers(1, _RARELY)) == _RARELY:
            raw["cluster"]["network"] = {"mode": "existing", "subnets": [*subnets_of(raw)]}
    return _of_one_kubernetes(raw)


def subnets_of(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """An id for a subnet in each zone of the cluster and its pools -> the zone. The account gives
    them others.
    """
    cluster = _planned(raw).cluster
    assert isinstance(cluster, plan.EksClusterPlan)
    zones = sorted({*cluster.zones, *cluster.pool_zones})
    return {f"subnet-{number:08x}": zone for number, zone in enumerate(zones)}


@st.composite
def joining(draw: st.DrawFn, cloud: Cloud) -> tuple[dict[str, Any], dict[str, Any]]:
    """A stack file of a new cluster, and one that brings pools to it."""
    raw = draw(stack_files(cloud))
    # Its network is that of the cluster, and what gives roles to pods is its owner's.
    own = {k: v for k, v in raw["cluster"].items() if k not in ("network", "pod_identities")}
    if cloud == "eks":
        raw = raw | {"cluster": own}
    brought = {**raw["cluster"], "existing": True}
    pools = [{**one, "name": f"x-{i}"} for i, one in enumerate(raw["node_pools"])]
    # A version is the cluster's own, and images are of one.
    for pool in pools:
        pool.pop("release_version", None)
    joined = accepted({**raw, "cluster": brought, "node_pools": pools})
    there = _planned(raw)
    if not isinstance(there, plan.EksFleetPlan):
        return raw, joined
    # Nodes join it in the subnets that it has.
    zones = {zone for pool in there.pools for zone in pool.settings.zones}
    name = {key: raw["cluster"][key] for key in ("name", "region")}
    name["zones"] = sorted({*zones, *there.cluster.zones, *there.system.zones})
    kept = ("machine_type", "zones", "capacity")
    first = {key: value for key, value in raw["node_pools"][0].items() if key in kept}
    own = {**copy.deepcopy(first), "name": "own", "nodes": {"count": 1}}
    return accepted({"cloud": cloud, "cluster": name, "node_pools": [own]}), joined


@st.composite
def changed_in_place(draw: st.DrawFn, before: dict[str, Any]) -> dict[str, Any]:
    """The same fleet with other values of some keys, of which `plan --diff` says that every node
    stays: what it says more of is left as it was.
    """
    raw, cloud = copy.deepcopy(before), before["cloud"]
    old = _planned(before)
    writer = _Writer(draw, cloud, old.cluster.region)
    cluster, pool = (
        (stack_file.GkeCluster, stack_file.GkePool)
        if cloud == "gke"
        else (stack_file.EksCluster, stack_file.EksPool)
    )
    writer.change(raw["cluster"], cluster, ("cluster",))
    writer.change(raw.setdefault("system_pool", {}), stack_file.SystemPool, ("system_pool",))
    for one in raw["node_pools"]:
        writer.change(one, pool, ("node_pools",))
        if draw(st.booleans()):
            most = one["nodes"].get("count", _MOST_NODES) + 1
            one["nodes"] = one["nodes"] | {next(iter(reversed(one["nodes"]))): most}
    raw = _of_one_kubernetes(accepted(raw))
    if _minor(raw) > _minor(before) + 1:
        # GKE refuses. `plan --diff` does not say so: it cannot know what the cluster has by now.
        del raw["cluster"]["version"]
    told = plan.compare(old, _planned(raw))
    if max((change.effect for change in told.fleet), default=IN_PLACE) > IN_PLACE:
        for key in ("cluster", "system_pool"):
            raw[key] = copy.deepcopy(before.get(key, {}))
    kept = {one["name"]: one for one in before["node_pools"]}
    lost = {one.name for one in told.pools if one.effect > IN_PLACE}
    raw["node_pools"] = [kept[p["name"]] if p["name"] in lost else p for p in raw["node_pools"]]
    raw = _of_one_kubernetes(accepted(raw))
    told = plan.compare(old, _planned(raw))
    effects = [change.effect for change in told.fleet] + [one.effect for one in told.pools]
    assume(raw != before and max(effects, default=IN_PLACE) <= IN_PLACE)
    return raw


def _minor(raw: Mapping[str, Any]) -> int:
    """Of the cluster's Kubernetes; 0 where it is GKE's choice."""
    _, _, minor = str(raw["cluster"].get("version", "")).partition(".")
    return int(minor.partition(".")[0] or 0)


def _planned(raw: Mapping[str, Any]) -> plan.GkeFleetPlan | plan.EksFleetPlan:
    fleet = plan.read(json.dumps(raw), stack_file.Source("drawn", raw))
    assert not isinstance(fleet, plan.ExistingFleetPlan)
    return fleet


def _of_one_kubernetes(raw: dict[str, Any]) -> dict[str, Any]:
    if "version" not in raw["cluster"]:
        for pool in raw["node_pools"]:
            # An image fits one Kubernetes, and which EKS gives a new cluster nobody knows here:
            # `check` says so in a note.
            pool.pop("release_version", None)
    return accepted(raw)


def accepted(raw: dict[str, Any]) -> dict[str, Any]:
    """The same without what `check` names; rejects the example where nothing would be left."""
    rounds = 0
    while problems := refusals(raw):
        rounds += 1
        assume(rounds <= _ROUNDS and all(_taken_out(raw, one.path) for one in problems))
    for pool in _planned(raw).pools:
        # Google has machine types before the catalog does: `check` only notes that one is new.
        assume(
            pool.settings.machine.zones is None
            or {*pool.settings.zones} <= {*pool.settings.machine.zones}
        )
    return raw


def refusals(raw: Mapping[str, Any]) -> Sequence[stack_file.Problem]:
    try:
        fleet = _planned(raw)
    except stack_file.SpecError as e:
        return e.problems
    return buildable.unbuildable(fleet)


def _taken_out(raw: dict[str, Any], path: stack_file.Path) -> bool:
    """Takes out the value at the path, or the nearest above it that may go."""
    way: list[tuple[Any, str | int]] = []
    at: Any = raw
    for step in path:
        if not (isinstance(at, dict) and step in at) and not (
            isinstance(at, list) and isinstance(step, int) and step < len(at)
        ):
            break
        way.append((at, step))
        at = at[step]
    for holder, step in reversed(way):
        if step in ("cloud", "cluster", "node_pools", "name", "location", "region"):
            return False
        # Without what it must have, a part is taken out in the next round.
        if isinstance(holder, list) and len(holder) == 1:
            continue
        del holder[step]
        return True
    return False


def _regions(cloud: Cloud) -> tuple[str, ...]:
    """Those with GPUs."""
    if cloud == "gke":
        return tuple(catalog.gcp().zones)
    there = {region for by_region in catalog.offerings().values() for region in by_region}
    known = catalog.aws()
    return tuple(
        region
        for region in sorted(there)
        if len([z for z in known.regions[region].zones if z not in known.no_control_plane]) > 1
    )


def _versions(cloud: Cloud) -> list[str]:
    """Kubernetes versions that a new cluster may have in any release channel."""
    aws, gcp = catalog.aws(), catalog.gcp()
    if cloud == "eks":
        return [v.minor for v in aws.versions.values() if v.is_supported(aws.day)]
    return [v.minor for v in gcp.versions.values() if v.has_standard_support(gcp.day)]


def _machines(cloud: Cloud, region: str, *, gpus: bool) -> Mapping[str, tuple[str, ...]]:
    """Machine type -> zones of the region that have it."""
    found = {}
    with_gpus = [m for m in catalog.load().machines.values() if m.cloud == cloud]
    for machine in with_gpus if gpus else catalog.general_machines(cloud):
        if cloud == "gke":
            zones = catalog.gcp().zones[region]
            there = tuple(z for z in zones if machine.zones is None or z in machine.zones)
        else:
            offered = catalog.offerings().get(machine.name)
            own = catalog.aws().regions[region].zones
            there = own if offered is None else offered.get(region, ())
        if there:
            found[machine.name] = there
    return found


@dataclass(frozen=True)
class _Writer:
    """Draws one file, of one region."""

    draw: st.DrawFn
    cloud: Cloud
    region: str

    def object_of(self, model: type[BaseModel], at: tuple[str, ...]) -> dict[str, Any]:
        own = {
            ("node_pools",): self._pool,
            ("cluster",): self._cluster,
            ("system_pool",): self._system_pool,
        }.get(at, dict[str, Any])()
        for name, info in model.model_fields.items():
            path = (*at, name)
            if name in own or ".".join(path) in _LEFT_OUT:
                continue
            if info.is_required() or self._rarely():
                own[name] = self._value(info.annotation, tuple(info.metadata), path)
        return own

    def change(self, own: dict[str, Any], model: type[BaseModel], at: tuple[str, ...]) -> None:
        """Gives some optional keys other values, or takes them out."""
        optional = [
            (name, info)
            for name, info in model.model_fields.items()
            if name == "nodes" or not (info.is_required() or ".".join((*at, name)) in _LEFT_OUT)
        ]
        for name, info in self.draw(
            st.lists(st.sampled_from(optional), max_size=2, unique_by=lambda one: one[0])
        ):
            if name in own and name != "nodes" and self.draw(st.booleans()):
                del own[name]
            else:
                own[name] = self._value(info.annotation, tuple(info.metadata), (*at, name))

    def of_account(self, cluster: dict[str, Any]) -> None:
        """Roles of pods, and versions and settings of the add-ons: of those that there are."""
        partition = catalog.aws().regions[self.region].partition
        if self._rarely():
            names = self.draw(st.lists(st.sampled_from(ROLES), min_size=1, max_size=2))
            cluster["pod_identities"] = [
                {
                    "namespace": "training",
                    "service_account": f"trainer-{number}",
                    "role": f"arn:{partition}:iam::{ACCOUNT}:role/{name}",
                }
                for number, name in enumerate(names)
            ]
        addons = cluster.setdefault("addons", {})
        for name, versions in ADDON_VERSIONS.items():
            if name in ("coredns", "kube-proxy", "vpc-cni") or name in addons:
                asked = addons.setdefault(name, {})
                if self._rarely():
                    asked["version"] = self.draw(st.sampled_from(versions))
                if self._rarely() and name in _SETTINGS:
                    asked["settings"] = dict(self.draw(st.sampled_from(_SETTINGS[name])))

    def _rarely(self) -> bool:
        return self.draw(st.integers(1, _RARELY)) == _RARELY

    def _value(self, kind: Any, rules: tuple[Any, ...], at: tuple[str, ...]) -> Any:
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._value(inner[0], (*inner[1:], *rules), at)
        shares = [rule for rule in rules if isinstance(rule, ShareOfNodes)]
        if shares:
            return self._share(shares[0])
        if origin in (Union, UnionType):
            others = [one for one in inner if one is not NoneType and one not in _NOT_DRAWN]
            return self._value(self.draw(st.sampled_from(others)), rules, at)
        if origin is Literal:
            return self.draw(st.sampled_from(inner))
        if origin is tuple:
            count = self.draw(st.integers(1, _MOST_POOLS))
            return [self._value(inner[0], (), at) for _ in range(count)]
        if isinstance(origin, type) and issubclass(origin, Mapping):
            count = self.draw(st.integers(1, 3))
            keys = [self._value(inner[0], (), at) for _ in range(count)]
            return {key: self._value(inner[1], (), at) for key in keys}
        if kind is Fixed:
            return {"count": self.draw(st.integers(1, _MOST_NODES))}
        if kind is Autoscaled:
            least = self.draw(st.integers(0, _MOST_NODES))
            return {"min": least, "max": self.draw(st.integers(max(least, 1), _MOST_NODES + 2))}
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self.object_of(kind, at)
        if kind is bool:
            return self.draw(st.booleans())
        if kind is int:
            return self._number(rules)
        assert kind is str, (kind, at)
        return self._text(rules)

    def _number(self, rules: Sequence[Any]) -> int:
        (bounds,) = (rule for rule in rules if isinstance(rule, IntRange))
        most = bounds.maximum or bounds.minimum + 8
        near = st.integers(bounds.minimum, min(bounds.minimum + 8, most))
        return self.draw(near | st.just(most) | st.integers(bounds.minimum, most))

    def _share(self, rule: ShareOfNodes) -> int | str:
        """A number of nodes, or a percentage of them."""
        least, most = rule.bounds.minimum, rule.bounds.maximum
        near = st.integers(least, min(least + 8, most))
        percentages = st.integers(least, 100).map("{}%".format)
        return self.draw(near | st.just(most) | percentages)

    def _text(self, rules: Sequence[Any]) -> str:
        for rule in rules:
            if isinstance(rule, DnsLabel):
                return self.draw(st.sampled_from(("a", "b", "c-9", "d" * rule.longest)))
            if isinstance(rule, QualifiedName):
                return self.draw(st.sampled_from(_LABEL_KEYS))
            if isinstance(rule, Cidr):
                return self.draw(st.sampled_from(_CIDRS))
            if isinstance(rule, Pattern):
                if self._rarely():
                    return self.draw(st.from_regex(rule.pattern, fullmatch=True, alphabet=_TEXT))
                examples = [one.strip('"') for one in (*rule.examples, rule.example)]
                return self.draw(st.sampled_from(examples))
        raise AssertionError(f"text without a rule: {rules}")

    def _some_of(self, values: Sequence[str]) -> list[str]:
        return self.draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))

    def _cluster(self) -> dict[str, Any]:
        if self.cloud == "eks":
            able = [
                zone
                for zone in catalog.aws().regions[self.region].zones
                if zone not in catalog.aws().no_control_plane
            ]
            zones = st.lists(st.sampled_from(able), min_size=2, max_size=3, unique=True)
            version = st.none() | st.sampled_from(_versions(cloud="eks"))
            return {"region": self.region, "zones": self.draw(zones)} | _given(
                version=self.draw(version)
            )
        zones = catalog.gcp().zones[self.region]
        version = st.none() | st.sampled_from(_versions(cloud="gke"))
        place = self.draw(st.just(self.region) | st.sampled_from(zones))
        return {"location": place} | _given(version=self.draw(version))

    def _system_pool(self) -> dict[str, Any]:
        machines = _machines(self.cloud, self.region, gpus=False)
        machine = self.draw(st.sampled_from(sorted(machines)))
        return {"machine_type": machine, "zones": self._some_of(machines[machine])}

    def _pool(self) -> dict[str, Any]:
        machines = _machines(self.cloud, self.region, gpus=True)
        if not machines:
            reject()
        name = self.draw(st.sampled_from(sorted(machines)))
        pool = {"machine_type": name, "zones": self._some_of(machines[name])}
        machine = catalog.load().machines[(self.cloud, name)]
        gpu = machine.gpu
        if machine.attachable:
            choice = self.draw(st.sampled_from(machine.attachable))
            gpu = choice.gpu
            count = self.draw(st.sampled_from(choice.counts))
            pool["gpu"] = {"model": gpu.name, "count": count}
        if gpu and gpu.family and self.draw(st.booleans()):
            pool["partition"] = self._partition(machine, gpu)
        if self.draw(st.booleans()):
            pool |= self._capacity()
        if self._rarely():
            replicas = self.draw(st.sampled_from((2, 3, 48)))
            pool["sharing"] = {"mode": "time-slicing", "replicas": replicas}
        return pool

    def _capacity(self) -> dict[str, Any]:
        """How the pool gets its machines, with the number of nodes that it allows."""
        kinds: dict[str, type[BaseModel]] = {
            "spot": stack_file.Spot,
            "reservation": stack_file.Reservation,
            "capacity-block": stack_file.CapacityBlock,
        }
        if self.cloud == "gke":
            kinds = {
                "on-demand": GkeOnDemand,
                "spot": GkeSpot,
                "flex-start": stack_file.FlexStart,
                "queued": stack_file.Queued,
                "reservation": GkeReservation,
            }
        mode = self.draw(st.sampled_from(sorted(kinds)))
        at = ("node_pools", "capacity")
        capacity = self.object_of(kinds[mode], at) | {"mode": mode}
        if self.cloud == "eks" and "reservation" in capacity:
            capacity["reservation"] = f"cr-{self.draw(st.integers(0, 16**17 - 1)):017x}"
        if mode not in ("flex-start", "queued"):
            return {"capacity": capacity}
        nodes = {"min": 0, "max": self.draw(st.integers(1, _MOST_NODES))}
        return {"capacity": capacity, "nodes": nodes, "management": {"auto_repair": False}}

    def _partition(self, machine: Machine, gpu: catalog.Gpu) -> dict[str, Any]:
        if self.cloud == "gke" and machine.accelerator and self.draw(st.booleans()):
            sizes = catalog.load().accelerators[machine.accelerator].sizes
            return {"mode": "native", "profile": self.draw(st.sampled_from(sizes or ("1g.5gb",)))}
        layouts = st.dictionaries(
            st.sampled_from(sorted(gpu.profiles)), st.integers(1, 2), min_size=1, max_size=2
        )
        if self.draw(st.booleans()):
            return {"mode": "operator", "layout": self.draw(layouts)}
        groups = [
            {"index": [index], "layout": self.draw(layouts)} for index in range(machine.gpu_count)
        ]
        return {"mode": "operator", "gpus": groups}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
