"""A rehearsal: each stack file to a proven fleet and back, shown live."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from slicewright.infra import plan
from slicewright.infra.plan import EksFleetPlan, ExistingFleetPlan, FleetPlan, GkeFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.control_plane import process_images
from slicewright.rehearsal.cluster.kubelet.pods import large_fleets
from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.host import toolchain
from slicewright.rehearsal.scenario import (
    disk_space,
    display,
    existing_cluster,
    failing_pods,
    model_shares,
    official_plugins,
    proof,
    settings,
    tool_groups,
    walkthrough,
    workload_needs,
)
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.engine_output import OutputFilter
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import RehearsalError
from slicewright.rehearsal.scenario.live import LiveLines
from slicewright.rehearsal.scenario.progress import Progress
from slicewright.rehearsal.scenario.proof import Check
from slicewright.rehearsal.scenario.stack_check import check_stack
from slicewright.rehearsal.scenario.walkthrough import WALKTHROUGHS, Walkthrough

_REAL = """\
[bold]real[/]       the pulumi engine and its program; etcd, kube-apiserver, controller-manager,
           scheduler; node agent, fleet controller, RBAC, tokens"""
_SIMULATED = """\
[bold]simulated[/]  the cloud; nodes and their kubelet; the GPUs (a fake libnvidia-ml.so.1);
           the GPU operator's controller; the workload's pods"""
_FORKED = """\
[bold]shared[/]     in {where} the programs of DaemonSets, the node agents too, are
           forked from processes that have loaded them, and give way to the control plane;
           each has its own files, user, token and driver library
"""
_OPERANDS = "NVIDIA's mig-manager, device plugin, feature discovery (not on GKE)"


@dataclass(frozen=True)
class Rehearsal:
    """Runs stacks, each in an environment of its own below `directory`."""

    directory: Path
    console: Console

    @property
    def _live(self) -> LiveLines:
        return LiveLines(self.console)

    def run(self, stacks: Sequence[str], *, keep: bool) -> bool:
        """Each stack up, proven and, unless `keep`, destroyed; True when every fact holds.

        Raises WrongUse or SpecError for a stack that cannot be rehearsed, WrongUse for a wrong
        value of an environment variable, RehearsalError where the host cannot run a rehearsal,
        ToolchainError where a tool cannot be had.
        """
        settings.check(os.environ)
        fleets = [check_stack(stack) for stack in stacks]
        for fleet in fleets:
            official_plugins.require(_packages(fleet))
        if reason := launcher.why_not():
            raise RehearsalError(reason)
        for stack in stacks:
            environment = self._at(stack)
            environment.require_own_directory()
            if environment.kept.exists():
                raise RehearsalError(
                    f"{stack} is kept in {environment.root} and may be in use; end it with "
                    f"`{environment.command('destroy')}` first"
                )
        self.console.rule("[bold]slicewright rehearsal")
        said = _real_and_simulated() + _forked(fleets) + _plugins()
        self.console.print(said, highlight=False)
        began = time.monotonic()
        tools = toolchain.ensure(toolchain.reporter(self.console), tool_groups.of(fleets))
        self._live.say(f"toolchain ready in {time.monotonic() - began:.1f} s")
        checks: list[Check] = []
        for stack in stacks:
            with self._alone(stack):
                # What an interrupted run left is of no use: Pulumi's state and the simulated cloud
                # may not agree.
                if self._at(stack).exists:
                    environments.remove(self._at(stack))
                disk_space.require(self.directory)
                environment = environments.create(self._at(stack).root, tools)
                checks += self._run_stack(environment, keep=keep)
        self.console.print(display.table(checks))
        return all(check.holds for check in checks)

    def destroy(self, kept: Sequence[Environment], *, force: bool) -> bool:
        """Destroys what kept rehearsals left; True when the simulated clouds are empty.

        force: ends the processes and deletes the directory without `pulumi destroy`, for an
        environment that is beyond repair.
        """
        checks: list[Check] = []
        for environment in kept:
            if not environment.exists:
                self._live.say(
                    f"{environment.stack}: no rehearsal environment at {environment.root}"
                )
                continue
            with self._alone(environment.stack):
                if force:
                    environments.remove(environment)
                    self._live.say(
                        f"{environment.stack}: its processes are ended and {environment.root} is "
                        "deleted"
                    )
                else:
                    checks += self._destroy(environment)
        if not kept:
            self._live.say(
                f"nothing to destroy: no rehearsal environment in {self.directory.resolve()}"
            )
        if checks:
            self.console.print(display.table(checks))
        left = [environment for environment in kept if environment.exists]
        for environment in left:
            self._live.say(
                f"{environment.stack}: not everything is destroyed; to end its processes and "
                f"delete it without Pulumi: {environment.command('destroy --force')}"
            )
        return not left and all(check.holds for check in checks)

    def _at(self, stack: str) -> Environment:
        return Environment((self.directory / stack).resolve())

    @contextlib.contextmanager
    def _alone(self, stack: str) -> Iterator[None]:
        """Raises RehearsalError where another run works on the same stack's environment."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f".{stack}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RehearsalError(
                    f"another run works on {stack} in {self.directory.resolve()}; wait for "
                    "it, or stop it"
                ) from None
            yield

    def _run_stack(self, environment: Environment, *, keep: bool) -> list[Check]:
        stack = environment.stack
        example = WALKTHROUGHS.get(stack)
        self.console.rule(f"[bold]{example.title if example else stack}")
        try:
            environments.start(environment)
            self._make_existing(environment)
            checks = self._bring_up(environment)
            is_up = all(check.holds for check in checks)
            if is_up:
                checks += self._prove(environment, example)
            if keep:
                self._explain_kept(environment, failed=not is_up)
            elif is_up:
                if example:
                    walkthrough.delete(_client(environment), example)
                checks += self._destroy(environment)
        except BaseException:
            self._end(environment)
            raise
        if not keep:
            self._end(environment)
        return checks

    def _bring_up(self, environment: Environment) -> list[Check]:
        """Ends with the first command that fails."""
        engine = self._engine(environment)
        checks: list[Check] = []
        fleet = plan.read_file(environment.stack_file(environment.stack))
        model_shares.fill(environment, fleet, self._live.say)
        making = workload_needs.WorkloadNeeds(environment, fleet, self._live.say)
        with Progress(environment, self._live.say), making:
            for run in (engine.init, engine.preview, engine.up):
                outcome = run()
                if run == engine.up and (command := existing_cluster.command_in(outcome.output)):
                    self._say_outcome(outcome)
                    checks.append(proof.of_refusal(environment.stack, outcome, command))
                    self._live.say(f"as the operator's owner: {command}")
                    existing_cluster.run(environment, command)
                    outcome = run()
                if run != engine.init or outcome.code:
                    self._say_outcome(outcome)
                checks.append(proof.of_run(environment.stack, outcome))
                disk_space.require_not_full(environment, outcome)
                if outcome.code:
                    break
        return checks

    def _prove(self, environment: Environment, example: Walkthrough | None) -> list[Check]:
        stack, client = environment.stack, _client(environment)
        fleet = proof.read_released_fleet(client)
        self.console.print(display.picture(fleet, width=self.console.width))
        planned = plan.read_file(environment.stack_file(stack))
        checks = proof.of_fleet(stack, fleet, nodes=sum(p.nodes.min for p in planned.pools))
        checks.append(proof.of_other_pods(stack, failing_pods.wait_until_none(client)))
        if example:
            checks += self._land(client, example)
        again = self._engine(environment).preview("--expect-no-changes")
        self._say_outcome(again)
        return [*checks, proof.of_no_changes(stack, again)]

    def _land(self, client: Client, example: Walkthrough) -> list[Check]:
        self._live.say(f"walkthrough: {example.asked} replicas of {example.deployment}")
        walkthrough.apply(client, example)
        landing = walkthrough.wait_until_landed(client, example, example.asked)
        self._live.say(f"walkthrough: {landing.bound} of {landing.asked} bound")
        health = walkthrough.wait_until_healthy(client, example)
        checks = [proof.of_landing(example, landing, health)]
        if example.over > example.asked:
            walkthrough.scale(client, example, example.over)
            landing = walkthrough.wait_until_landed(client, example, example.over)
            self._live.say(
                f"walkthrough: {landing.bound} of {landing.asked} bound; {landing.why_pending}"
            )
        return [*checks, proof.of_overflow(example, landing)]

    def _destroy(self, environment: Environment) -> list[Check]:
        """Deletes the environment where `pulumi destroy` left nothing in the simulated cloud."""
        _ = environment.toolchain  # raises where it is missing
        environments.start(environment)
        exists = existing_cluster.restart(environment)
        if exists:
            workload_needs.remove(environment)
        outcome = self._engine(environment).destroy()
        self._say_outcome(outcome)
        disk_space.require_not_full(environment, outcome)
        stack = environment.stack
        checks = [proof.of_run(stack, outcome)]
        if exists:
            left = existing_cluster.differences(environment)
            for line in left.others:
                self._live.say(f"{stack}: after destroy, {line}")
            checks.append(proof.of_existing_cluster(stack, left))
        else:
            checks.append(proof.of_empty_cloud(stack, environment.inventory()))
        if all(check.holds for check in checks):
            environments.stop(environment)
            checks.append(proof.of_no_process(stack, environment))
            environments.remove(environment)
        return checks

    def _make_existing(self, environment: Environment) -> None:
        """The cluster that a stack with `cloud: byo` finds."""
        fleet = plan.read_file(environment.stack_file(environment.stack))
        if isinstance(fleet, ExistingFleetPlan):
            self._live.say(
                f"{environment.stack}: making the cluster that is there before `pulumi up`"
            )
            existing_cluster.make(environment, fleet)

    def _end(self, environment: Environment) -> None:
        """Ends the processes of an environment that is still there; its files stay."""
        if not environment.root.exists():
            return
        # A second Ctrl-C must not leave half of it running.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._live.say(f"{environment.stack}: ending its processes …")
            environments.stop(environment)
            self._live.say(
                f"{environment.stack}: ended; logs stay in {environment.root} until its next run"
            )
        finally:
            signal.signal(signal.SIGINT, before)

    def _explain_kept(self, environment: Environment, *, failed: bool) -> None:
        environment.kept.touch()
        show = self._live.to_copy
        show("")
        show(
            f"{environment.stack} failed and is left running in {environment.root}, to look into."
            if failed
            else f"{environment.stack} is left running in {environment.root}."
        )
        show("In a shell:")
        show(environment.exports())
        show(
            f"cd {environment.project} && pulumi stack select {environment.stack} && "
            "pulumi preview && kubectl get nodes,gpupools"
        )
        show(f"The stack file to edit (a copy): {environment.stack_file(environment.stack)}")
        show(f"When done: {environment.command('destroy')}")
        show("")

    def _say_outcome(self, outcome: Outcome) -> None:
        self._live.say(
            f"{' '.join(outcome.command.split()[:2])}: exit code {outcome.code} after "
            f"{outcome.seconds:.1f} s"
        )

    def _engine(self, environment: Environment) -> Engine:
        output = OutputFilter()

        def show(line: str) -> None:
            for kept in output.of(line):
                self._live.of_pulumi(kept)

        return Engine(
            environment,
            environment.stack,
            show,
            is_hopeless=lambda: disk_space.is_full(environment),
        )


def _packages(fleet: FleetPlan) -> tuple[str, ...]:
    """Of the providers that the program uses for the fleet."""
    match fleet:
        case GkeFleetPlan():
            return "gcp", "kubernetes"
        case EksFleetPlan():
            return "aws", "kubernetes"
        case ExistingFleetPlan():
            return ("kubernetes",)


def _client(environment: Environment) -> Client:
    return Client.from_kubeconfig(next(iter(environment.kubeconfigs().values())))


def _real_and_simulated() -> str:
    if process_images.mode_of(os.environ) == "simulated":
        return f"{_REAL}\n{_SIMULATED};\n           {_OPERANDS}\n"
    return f"{_REAL};\n           {_OPERANDS}\n{_SIMULATED}\n"


def _forked(fleets: Sequence[FleetPlan]) -> str:
    """What large fleets have otherwise."""
    most = max(sum(pool.nodes.max for pool in fleet.pools) for fleet in fleets)
    match large_fleets.mode_of(os.environ):
        case "own":
            where = None
        case "forked":
            where = "all clusters"
        case "by size":
            many = large_fleets.MOST_STARTED
            where = f"clusters of more than {many} GPU nodes" if most > many else None
    return "" if where is None else _FORKED.format(where=where)


def _plugins() -> str:
    official = official_plugins.chosen()
    stand_ins = [package for package in official_plugins.PACKAGES if package not in official]
    shown = []
    if stand_ins:
        shown.append(f"Pulumi's plugins for {_listed(stand_ins)} are stand-ins")
    if official:
        runs = _listed([path.parent.name for path in official.values()])
        shown.append(f"Pulumi's own {runs} {'runs' if len(official) == 1 else 'run'}")
    if "kubernetes" in official:
        shown.append(f"({official_plugins.KUBERNETES_VARIABLE}=stand-in: the stand-in)")
    return "".join(f"           {line}\n" for line in shown)


def _listed(names: Sequence[str]) -> str:
    """a, b and c"""
    *most, final = names
    return f"{', '.join(most)} and {final}" if most else final
