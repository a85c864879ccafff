"""The main job: a stack file to a proven fleet and back, live, for a person who watches."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from infra import plan, spec
from kubeapi import Client
from rehearsal.cluster.node import launcher
from rehearsal.host import toolchain
from rehearsal.scenario import environment as environments
from rehearsal.scenario import proof, walkthrough
from rehearsal.scenario.engine_output import Shown
from rehearsal.scenario.engine_runs import Engine, Outcome
from rehearsal.scenario.environment import Environment, RehearsalError
from rehearsal.scenario.progress import Progress
from rehearsal.scenario.walkthrough import WALKTHROUGHS, Walkthrough

REAL_AND_SIMULATED = """\
[bold]real[/]       the pulumi engine and its program; etcd, kube-apiserver, controller-manager,
           scheduler; node agent, fleet controller, RBAC, tokens;
           NVIDIA's mig-manager, device plugin, feature discovery (S1)
[bold]simulated[/]  the cloud; nodes and their kubelet; the GPUs (a fake libnvidia-ml.so.1);
           the GPU operator's controller; the workload's pods; and
           Pulumi's plugins for gcp, aws and kubernetes are stand-ins
"""


class NoSuchStack(RehearsalError):
    """The name is no stack's: wrong use, not this host's fault."""


def check_stack(stack: str) -> None:
    """Raises NoSuchStack unless `stack` names a stack file of the project, SpecError unless that
    can be brought up.
    """
    known = sorted(
        p.name.removeprefix("Pulumi.").removesuffix(".yaml")
        for p in (environments.PROJECT / "stacks").glob("Pulumi.*.yaml")
    )
    if stack not in known:
        raise NoSuchStack(
            f"no stack {stack!r}: there is no stacks/Pulumi.{stack}.yaml; there are "
            f"{', '.join(known)}"
        )
    file, name = (
        environments.PROJECT / "stacks" / f"Pulumi.{stack}.yaml",
        f"stacks/Pulumi.{stack}.yaml",
    )
    plan.deployable(plan.read_file(file, name=name), spec.read(file, name=name))


@dataclass(frozen=True)
class Rehearsal:
    """Runs stacks, each in an environment of its own below `directory`, and tells `console` what it
    sees.
    """

    directory: Path
    console: Console

    def run(self, stacks: tuple[str, ...], *, keep: bool) -> bool:
        """Each stack up, proven and (unless `keep`) destroyed again; True when everything was
        proven.

        Raises RehearsalError when the host cannot run a rehearsal, toolchain.ToolchainError when a
        tool cannot be had.
        """
        if reason := launcher.why_not():
            raise RehearsalError(reason)
        for stack in stacks:
            check_stack(stack)
            environment = self.at(stack)
            if environment.kept.exists():
                raise RehearsalError(
                    f"{stack} is kept in {environment.root} and may be in use; end it with "
                    f"`make destroy STACK={stack}` first"
                )
        self.console.rule("[bold]slicewright rehearsal")
        self.console.print(REAL_AND_SIMULATED, highlight=False)
        began = time.monotonic()
        tools = toolchain.ensure(self._say)
        self._say(f"toolchain ready in {time.monotonic() - began:.1f} s")
        checks: list[proof.Check] = []
        for stack in stacks:
            with self._alone(stack):
                # What an interrupted run left is of no use to anybody: its state and its cloud may
                # not agree.
                if self.at(stack).exists:
                    environments.remove(self.at(stack))
                environment = environments.create(self.directory / stack, tools)
                checks += self._run_stack(environment, stack, keep=keep)
        self.console.print(proof.table(checks))
        return all(check.holds for check in checks)

    def destroy(self, stacks: tuple[str, ...], *, force: bool) -> bool:
        """Destroys what a kept rehearsal left; True when the simulated cloud is empty and nothing
        runs any more.

        force: ends the processes and deletes the directory without asking Pulumi, for an
        environment that is beyond repair.
        """
        checks: list[proof.Check] = []
        for stack in stacks:
            environment = self.at(stack)
            if not environment.exists:
                self._say(f"{stack}: no rehearsal environment at {environment.root}")
                continue
            with self._alone(stack):
                if force:
                    environments.remove(environment)
                    self._say(f"{stack}: its processes are ended and {environment.root} is deleted")
                else:
                    checks += self._destroy(environment, stack)
        if not stacks:
            self._say(f"nothing to destroy: no rehearsal environment in {self.directory.resolve()}")
        if checks:
            self.console.print(proof.table(checks))
        if not all(check.holds for check in checks):
            self._say(
                "not everything went; to end its processes and delete it all the same: "
                "slicewright rehearse destroy --force"
            )
            return False
        return True

    def at(self, stack: str) -> Environment:
        """Where the stack's environment lies, whether it is there or not."""
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

    def _run_stack(self, environment: Environment, stack: str, *, keep: bool) -> list[proof.Check]:
        example = WALKTHROUGHS.get(stack)
        self.console.rule(f"[bold]{example.title if example else stack}")
        with self._ended_unless(environment, kept=keep):
            environments.start(environment)
            engine = self._engine(environment, stack)
            checks: list[proof.Check] = []
            with Progress(environment, self._say):
                for outcome in (
                    engine.init(),
                    self._told(engine.preview()),
                    self._told(engine.up()),
                ):
                    checks.append(proof.of_run(stack, outcome))
                    if outcome.code:
                        return checks
            client = Client.from_kubeconfig(next(iter(environment.kubeconfigs().values())))
            fleet = proof.read_fleet(client)
            self.console.print(proof.picture(fleet))
            checks += proof.of_fleet(stack, fleet)
            if example:
                checks += self._land(client, example)
            checks.append(
                proof.of_no_changes(stack, self._told(engine.preview("--expect-no-changes")))
            )
            if keep:
                self._explain_kept(environment, stack)
                return checks
            if example:
                walkthrough.delete(client, example)
            return checks + self._destroy(environment, stack)

    def _land(self, client: Client, example: Walkthrough) -> list[proof.Check]:
        self._say(f"walkthrough: {example.asked} replicas of {example.deployment}")
        walkthrough.apply(client, example)
        landing = walkthrough.wait_until_landed(client, example, example.asked)
        self._say(f"walkthrough: {landing.bound} of {landing.asked} bound")
        if example.over > example.asked:
            walkthrough.scale(client, example, example.over)
            over = walkthrough.wait_until_landed(client, example, example.over)
            self._say(f"walkthrough: {over.bound} of {over.asked} bound; {over.why_pending}")
            return [proof.of_landing(example, landing), proof.of_overflow(example, over)]
        return [proof.of_landing(example, landing), proof.of_overflow(example, landing)]

    def _destroy(self, environment: Environment, stack: str) -> list[proof.Check]:
        _ = environment.toolchain  # says so where it is gone
        environments.start(environment)
        outcome = self._told(self._engine(environment, stack).destroy())
        checks = [proof.of_run(stack, outcome)]
        checks.append(proof.of_empty_cloud(stack, environment.inventory()))
        if all(check.holds for check in checks):
            environments.stop(environment)
            checks.append(proof.of_no_process(stack, environment))
            environments.remove(environment)
        return checks

    @contextlib.contextmanager
    def _ended_unless(self, environment: Environment, *, kept: bool) -> Iterator[None]:
        """Ends the environment's processes when the block is left early; its files stay for whoever
        looks for the cause.
        """
        done = False
        try:
            yield
            done = True
        finally:
            if not (kept and done) and environment.root.exists():
                # A second Ctrl-C must not leave half of it running.
                impatient = signal.signal(signal.SIGINT, signal.SIG_IGN)
                self._say("ending what runs …")
                environments.stop(environment)
                if not done:
                    self._say(f"ended; logs stay in {environment.root} until the next run")
                signal.signal(signal.SIGINT, impatient)

    def _explain_kept(self, environment: Environment, stack: str) -> None:
        environment.kept.touch()
        self.console.print(
            f"\n{stack} is left running in {environment.root}. In a shell:", highlight=False
        )
        self.console.print(escape(environment.exports()), highlight=False, soft_wrap=True)
        self.console.print(
            f"cd {environment.project} && pulumi stack select {stack} && pulumi preview && "
            "kubectl get nodes,gpupools",
            highlight=False,
            soft_wrap=True,
        )
        self.console.print(
            f"The stack file to edit (a copy): {environment.stack_file(stack)}",
            highlight=False,
            soft_wrap=True,
        )
        self.console.print(
            f"When you are done: make -C {environments.PROJECT} destroy\n",
            highlight=False,
            soft_wrap=True,
        )

    def _told(self, outcome: Outcome) -> Outcome:
        self._say(
            f"{' '.join(outcome.command.split()[:2])}: exit code {outcome.code} after "
            f"{outcome.seconds:.1f} s"
        )
        return outcome

    def _say(self, text: str) -> None:
        self.console.print(
            f"[cyan]{time.strftime('%H:%M:%S')}[/] {escape(text)}", highlight=False, soft_wrap=True
        )

    def _engine(self, environment: Environment, stack: str) -> Engine:
        output = Shown()

        def tell(line: str) -> None:
            for told in output.of(line):
                self.console.print(
                    f"[dim]pulumi │[/] {escape(told)}", highlight=False, soft_wrap=True
                )

        return Engine(environment, stack, tell)
