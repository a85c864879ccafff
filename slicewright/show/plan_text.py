"""Shows the plan to people: each GPU as a picture, the nodes' offers, costs, and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.text import Text

from slicewright.apis.names import MIG_CONFIG_LABEL
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Placement
from slicewright.infra.plan import ChangeEffect
from slicewright.infra.plan.gpu_operator import drivers
from slicewright.infra.plan.model.offers import by_index
from slicewright.infra.plan.partition.partitions import minimum_driver
from slicewright.show.change_text import nodes_text, step_text
from slicewright.show.cost_text import fleet_cost_lines, pool_cost_lines, system_cost_line
from slicewright.show.landing import Landing, landings
from slicewright.show.lines import print_line
from slicewright.show.monitoring_text import monitoring_lines
from slicewright.show.notes_text import show_notes
from slicewright.show.picture import draw, placements_of
from slicewright.show.plan_json import totals
from slicewright.show.scaling_text import scaling_lines
from slicewright.show.shared_cards import request_lines, share_text, shared_card_lines

_STYLES = {
    ChangeEffect.NONE: "dim",
    ChangeEffect.IN_PLACE: "green",
    ChangeEffect.ROLL: "yellow",
    ChangeEffect.REPLACE: "red",
}


def show_plan(
    name: str, fleet: plan.FleetPlan, console: Console, *, today: date | None = None
) -> None:
    """Writes the whole plan."""
    print_line(console, f"{name}: {_location_text(fleet)}", "bold")
    if not isinstance(fleet, plan.ExistingFleetPlan) and (system := fleet.system) is not None:
        where = f"{nodes_text(system.nodes)} of {system.machine_type} in {', '.join(system.zones)}"
        print_line(console, f"system pool: {where}")
        print_line(console, system_cost_line(system, fleet))
    landed = landings(fleet)
    for pool in fleet.pools:
        console.print()
        _pool(pool, fleet, landed[pool.name], console)
    if isinstance(fleet, plan.ExistingFleetPlan):
        for host in fleet.hosts:
            console.print()
            _host(host, console)
    for request in fleet.workloads:
        console.print()
        for request_line in request_lines(request):
            console.print(request_line, soft_wrap=True)
    if fleet.engine is not None:
        console.print()
        for shared in shared_card_lines(fleet):
            console.print(shared, soft_wrap=True)
    for deployment in fleet.deployments:
        console.print()
        _deployment(deployment, landed[deployment.workload.pool], fleet.pod_autoscaling, console)
    if lines := monitoring_lines(fleet):
        console.print()
        for line in lines:
            print_line(console, line)
    if fleet.pools:
        console.print()
        _totals(fleet, console)
    show_notes(fleet, console, today=today)


def _deployment(
    deployment: plan.DeploymentPlan,
    landing: Landing,
    scaler: plan.PodAutoscalingPlan | None,
    console: Console,
) -> None:
    workload = deployment.workload
    count = f"{deployment.most} replica{'s' if deployment.most != 1 else ''}"
    if deployment.at_first != deployment.most:
        count = f"{deployment.at_first} to {count}"
    name = f"{deployment.namespace}/{deployment.name}"
    print_line(
        console, f"workload {name}: {count} of {workload.kind} on pool {workload.pool}", "bold"
    )
    print_line(console, f"  each requests   {_request(deployment)}")
    if deployment.share is None:
        _landing(deployment, landing, console)
    for need in _memory_needs(deployment):
        print_line(console, f"  each needs      {need}")
    for line in scaling_lines(deployment, scaler):
        print_line(console, line)


def _landing(deployment: plan.DeploymentPlan, landing: Landing, console: Console) -> None:
    each = landing.on_a_node(deployment)
    letter = f"{landing.letter(deployment)} in the drawing of its pool: "
    print_line(
        console,
        f"  lands on        {letter if deployment.profiles else ''}up to {each} "
        f"replica{'s' if each != 1 else ''} on a node",
    )


def _request(deployment: plan.DeploymentPlan) -> str:
    """Describes the devices of a replica, and the devices that the pool has for all of them."""
    if deployment.share is not None:
        return share_text(deployment.share)
    profiles = f" ({' or '.join(deployment.profiles)})" if deployment.profiles else ""
    used = deployment.demanded - deployment.most * deployment.devices
    elsewhere = f", {used} of them used by other workloads" if used else ""
    waiting = f", {deployment.pending} Pending" if deployment.pending else ""
    return (
        f"{deployment.devices} {deployment.resource}{profiles}; the pool offers up to "
        f"{deployment.offered}{elsewhere}{waiting}"
    )


def _memory_needs(deployment: plan.DeploymentPlan) -> Iterator[str]:
    usable = f" of {deployment.usable_mib} MiB usable" if deployment.usable_mib is not None else ""
    workload = deployment.workload
    stated = None if isinstance(workload, stack_file.VllmWorkload) else workload.gpu_memory
    if stated is not None:
        yield f"{stack_file.mebibytes(stated)} MiB{usable}, as stated"
    if (memory := deployment.memory) is not None:
        yield (
            f"{memory.needed_mib} MiB{usable}: weights {memory.weights_mib}, context "
            f"{memory.context_mib or 'unknown'}, server overhead about {memory.overhead_mib}"
        )


def show_written(files: Sequence[Path], console: Console) -> None:
    """Writes the names of the written files."""
    console.print()
    print_line(console, f"written: {', '.join(map(str, files))}")


def show_changes(change: plan.FleetChange, console: Console) -> None:
    """Writes the changes, pool by pool."""
    for change_of_fleet in change.fleet:
        _change("fleet", change_of_fleet, console)
    for part, kind in [
        *((pool, "pool") for pool in change.pools),
        *((host, "host") for host in change.hosts),
    ]:
        _part(part, kind, console)


def _part(part: plan.PartChange, kind: str, console: Console) -> None:
    style, moved = _STYLES[part.effect], part.effect is ChangeEffect.REPLACE
    match part.kind:
        case "new":
            print_line(
                console,
                f"{kind} {part.name}: "
                f"new{', its GPUs are partitioned' if part.effect is ChangeEffect.ROLL else ''}",
                style,
            )
        case "gone" if kind == "host":
            print_line(console, f"{kind} {part.name}: gone, its GPUs stay as they are", style)
        case "gone":
            nodes = (
                "with its nodes and the pods on them"
                if moved
                else "its nodes and the pods on them stay"
            )
            print_line(console, f"{kind} {part.name}: gone, {nodes}", style)
        case "same" | "changed":
            why = ""
            if part.effect > max(
                (change.effect for change in part.changes), default=ChangeEffect.NONE
            ):
                why = (
                    ", with its cluster" if moved else ", its nodes are those of the other cluster"
                )
            print_line(console, f"{kind} {part.name}: {part.effect.text}{why}", style)
            for change in part.changes:
                _change("", change, console)


def _change(of: str, change: plan.Change, console: Console) -> None:
    rule = change.rule
    start = f"{of}: " if of else "  "
    print_line(
        console,
        f"{start}{change.effect.text}: {rule.field} {step_text(change.before, change.after)}",
        _STYLES[change.effect],
    )
    print_line(console, f"      {rule.cloud_field}: {change.why} [source: {rule.source}]")


def _location_text(fleet: plan.FleetPlan) -> str:
    match fleet:
        case plan.GkeFleetPlan():
            return f"GKE cluster {fleet.cluster.name} in {fleet.cluster.location}"
        case plan.EksFleetPlan():
            return f"EKS cluster {fleet.cluster.name} in {fleet.cluster.region}"
        case plan.ExistingFleetPlan(cluster=None):
            return "hosts without Kubernetes"
        case plan.ExistingFleetPlan(cluster=cluster):
            return f"existing cluster {cluster.name} (context {cluster.context})" if cluster else ""


def _pool(pool: plan.PoolPlan, fleet: plan.FleetPlan, landing: Landing, console: Console) -> None:
    nodes = nodes_text(pool.nodes)
    settings = pool.settings
    if isinstance(settings, plan.CloudSettings):
        zones = ", ".join(settings.zones)
        description = f"{nodes} of {settings.machine.name} in {zones}, {settings.capacity.mode}"
        if isinstance(settings, plan.EksSettings) and settings.karpenter is not None:
            description += ", created by Karpenter"
    else:
        description = f"{nodes}, not created by this stack"
    print_line(console, f"pool {pool.name}: {description}", "bold")
    show_layouts(pool, console, landing)
    if pool.offer.mig_config is not None:
        # Warnings and `status` call the layout by this name, which the stack file does not have.
        name = f"{pool.offer.mig_config} (label {MIG_CONFIG_LABEL})"
        print_line(console, f"  layout's name   {name}")
    for share in pool.offer.sharing:
        name = share.resource.removeprefix("nvidia.com/")
        print_line(console, f"  each {name} is shared by {share.replicas} ({share.strategy})")
    each = dict(sorted(pool.offer.resources.items()))
    print_line(console, f"  a node offers   {_resources(each)}")
    fewest, most = (
        {n: c * times for n, c in each.items()} for times in (pool.nodes.min, pool.nodes.max)
    )
    first = _resources(fewest) if pool.nodes.min else "nothing at first"
    print_line(
        console,
        f"  the pool offers {first}" + (f"; up to {_resources(most)}" if fewest != most else ""),
    )
    if isinstance(pool.settings, plan.CloudSettings):
        for line in pool_cost_lines(pool, pool.settings, fleet):
            print_line(console, line)
    print_line(console, f"  driver          {_driver(pool, fleet)}")
    print_line(console, f"  before pods     {_verification(pool.verification)}")
    _pod(manifests.pod_request(pool, fleet.workloads), console)


def show_layouts(pool: plan.PoolPlan, console: Console, landing: Landing | None = None) -> None:
    """Draws the GPUs of each node of a pool."""
    for indexes, layout in by_index(pool.offer.layouts):
        which = f"GPU{'s' if len(indexes) > 1 else ''} {_ranges(indexes)}"
        placed = placements_of(pool.gpu, layout)
        _gpu(pool.gpu, f"{which} of each node", placed, console, landing)


def _verification(verification: plan.PoolVerification) -> str:
    text = "each device is listed by NVML as declared"
    if verification.compute:
        text += ", and has run a CUDA program"
    else:
        text += f", not run: {verification.why_listed_only}"
    if verification.pod:
        resources = ", ".join(requested.resource for requested in verification.pod)
        text += f"; a pod has computed on {resources}"
    return text


def _pod(request: manifests.JsonObject, console: Console) -> None:
    """Writes the YAML lines that a pod needs to run here and get a device."""
    first, *alternatives = request["limits"] or [None]
    if first is None:
        print_line(
            console,
            "  a pod requests  the resources of its entry in workloads; there is no entry yet",
        )
        return
    print_line(console, "  a pod requests one with this in its spec:")
    lines = manifests.as_flow_yaml(
        {
            "nodeSelector": request["nodeSelector"],
            "tolerations": request["tolerations"],
            **({"hostIPC": True} if request.get("hostIPC") else {}),
            **({"schedulerName": request["schedulerName"]} if "schedulerName" in request else {}),
            "containers": [{"resources": {"limits": first}}],
        }
    ).splitlines()
    for line in lines:
        print_line(console, f"    {line}")
    for other in alternatives:
        print_line(console, f"    # or limits: {manifests.as_flow_yaml(other).strip()}")


def _host(host: plan.HostPlan, console: Console) -> None:
    print_line(console, f"host {host.name}: {host.gpu_count} x {host.gpu.name}", "bold")
    for gpu in host.gpus:
        _gpu(host.gpu, f"GPU {gpu.index}", gpu.instances, console)
        for instance in gpu.instances:
            print_line(console, f"  {instance.profile} at {instance.start}:{instance.size}")
    busy = "refused" if host.wait_minutes is None else f"waited for, {host.wait_minutes} minutes"
    print_line(console, f"  other GPUs are not touched; a GPU in use is {busy}")


def _gpu(
    gpu: Gpu,
    which: str,
    placements: tuple[Placement, ...],
    console: Console,
    landing: Landing | None = None,
) -> None:
    count = len(placements)
    state = f"{count} partition{'s' if count != 1 else ''}" if placements else "whole"
    if landing is not None and landing.whole and not placements:
        state += f", for {landing.whole}"
    memory = f"{gpu.memory_mib} MiB" if gpu.memory_mib else "unknown memory"
    print_line(console, f"  {which}: {gpu.name}, {memory}, {state}")
    if placements:
        pods = landing.by_profile if landing is not None else {}
        for line in draw(gpu, placements, width=console.width - 4, pods=pods):
            console.print(Text("    ") + line, soft_wrap=True)
        if landing is not None and (
            named := [deployment for deployment in landing.deployments if deployment.profiles]
        ):
            letters = ", ".join(
                f"{landing.letter(deployment)} = {deployment.name}" for deployment in named
            )
            print_line(console, f"            {letters}")


def _totals(fleet: plan.FleetPlan, console: Console) -> None:
    summed = totals(fleet)
    offers = ", ".join(f"{name} {_span(span)}" for name, span in summed["allocatable"].items())
    print_line(
        console,
        f"totals: GPU nodes {_span(summed['nodes'])}, GPUs {_span(summed['gpus'])}; {offers}",
        "bold",
    )
    if isinstance(fleet, plan.ExistingFleetPlan):
        return
    for line in fleet_cost_lines(fleet):
        print_line(console, line)


def _ranges(indexes: list[int]) -> str:
    spans: list[list[int]] = []
    for index in indexes:
        if spans and spans[-1][-1] == index - 1:
            spans[-1].append(index)
        else:
            spans.append([index])
    return ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)


def _resources(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in resources.items())


def _span(span: Mapping[str, int]) -> str:
    return str(span["min"]) if span["min"] == span["max"] else f"{span['min']} to {span['max']}"


def _driver(pool: plan.PoolPlan, fleet: plan.FleetPlan) -> str:
    driver, needed = drivers.driver_of(pool, fleet), minimum_driver(pool.gpu, pool.offer.layouts)
    comes = (
        f"{driver.version}{'' if driver.exact else ' or newer'}"
        if driver.version
        else "unknown until a node is up"
    )
    return f"{comes} ({driver.of})" + (f"; the layout needs {needed} or newer" if needed else "")
