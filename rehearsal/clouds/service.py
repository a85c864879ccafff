"""All simulated services: a call is validated, may meet an injected fault, and is answered."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws import models as aws_models
from slicewright.rehearsal.clouds.aws.account import ORDINARY_VCPUS, account_of
from slicewright.rehearsal.clouds.aws.authorization import require
from slicewright.rehearsal.clouds.aws.ec2.request_rates import RequestRates
from slicewright.rehearsal.clouds.aws.ec2.service import Ec2
from slicewright.rehearsal.clouds.aws.eks.capacity import OF_GROUPS
from slicewright.rehearsal.clouds.aws.eks.cluster_users import EksUsers
from slicewright.rehearsal.clouds.aws.eks.node_events import NodeEvents
from slicewright.rehearsal.clouds.aws.eks.reserved_capacity import running_in
from slicewright.rehearsal.clouds.aws.eks.service import Eks
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.errors import injected_error as injected_aws_error
from slicewright.rehearsal.clouds.aws.iam import AwsIam
from slicewright.rehearsal.clouds.aws.idempotency import answered_once
from slicewright.rehearsal.clouds.aws.instance_profiles import InstanceProfiles
from slicewright.rehearsal.clouds.aws.kms import Kms
from slicewright.rehearsal.clouds.aws.load_balancers import LoadBalancers
from slicewright.rehearsal.clouds.aws.logs import Logs
from slicewright.rehearsal.clouds.aws.policy_simulator import PolicySimulator
from slicewright.rehearsal.clouds.aws.resource_groups import ResourceGroups
from slicewright.rehearsal.clouds.aws.service_quotas import ServiceQuotas
from slicewright.rehearsal.clouds.aws.sqs import Sqs
from slicewright.rehearsal.clouds.aws.ssm import Ssm
from slicewright.rehearsal.clouds.aws.sts import Sts
from slicewright.rehearsal.clouds.core import fault_file
from slicewright.rehearsal.clouds.core.account_file import AccountFileError
from slicewright.rehearsal.clouds.core.call_log import CallLog
from slicewright.rehearsal.clouds.core.cluster_users import ClusterUsers
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.control_planes import ControlPlanes
from slicewright.rehearsal.clouds.core.errors import CloudError, ConnectionLost, not_simulated
from slicewright.rehearsal.clouds.core.fault_file import (
    ApiError,
    BackgroundUpdate,
    CallFault,
    ConnectionReset,
    FaultFileError,
    Slowness,
    Throttling,
)
from slicewright.rehearsal.clouds.core.faults import Faults
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.core.tasks import Tasks
from slicewright.rehearsal.clouds.gcp import models as google_models
from slicewright.rehearsal.clouds.gcp.account import account_of as google_account_of
from slicewright.rehearsal.clouds.gcp.compute import Compute
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.errors import injected_error as injected_google_error
from slicewright.rehearsal.clouds.gcp.gke import quotas
from slicewright.rehearsal.clouds.gcp.gke.cluster_users import GkeUsers
from slicewright.rehearsal.clouds.gcp.gke.service import Gke
from slicewright.rehearsal.clouds.gcp.iam import GoogleIam
from slicewright.rehearsal.clouds.gcp.kms import CloudKms
from slicewright.rehearsal.clouds.gcp.offerings import Offerings
from slicewright.rehearsal.clouds.gcp.org_policies import OrgPolicies
from slicewright.rehearsal.clouds.gcp.service_usage import ServiceUsage

log = logging.getLogger(__name__)


class Cloud:
    """Both clouds. State is under E/cloud; calls may come from many threads."""

    def __init__(
        self,
        environment: Path,
        planes: ControlPlanes,
        *,
        ready_timeout_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._log = CallLog(environment)
        self._store = store = Store(environment / "cloud")
        self.tasks = Tasks(store, self._delay_s)
        self._faults = Faults(
            environment / fault_file.NAME,
            store,
            knows=self._knows,
            quotas={*ORDINARY_VCPUS, *quotas.NAMES},
        )
        self._context = context = Context(store, self.tasks, planes, self._faults, ready_timeout_s)
        self.cluster_users: Sequence[ClusterUsers] = (GkeUsers(context), EksUsers(context))
        """Per cloud: who uses the Kubernetes APIs of its clusters."""
        self._rates = RequestRates(clock)
        google_iam, compute, gke = GoogleIam(context), Compute(context), Gke(context)
        self._service_usage = ServiceUsage(context)
        aws_iam, ec2, eks = AwsIam(context), Ec2(context, running_in, OF_GROUPS), Eks(context)
        balancers, logs = LoadBalancers(context), Logs(context)
        self._node_events = (gke, NodeEvents(context))
        self._cluster_services = (gke, eks)
        self._services = (gke, compute, google_iam, eks, ec2, balancers, logs, aws_iam)
        self._methods: Mapping[str, Methods] = {
            "container": gke.methods(),
            "compute": {**compute.methods(), **Offerings(context).methods()},
            "iam": google_iam.methods(),
            "cloudresourcemanager": google_iam.policy_methods(),
            "serviceusage": self._service_usage.methods(),
            "cloudkms": CloudKms(context).methods(),
            "orgpolicy": OrgPolicies(context).methods(),
            "eks": eks.methods(),
            "ec2": ec2.methods(),
            "aws-iam": {
                **aws_iam.methods(),
                **InstanceProfiles(context).methods(),
                **PolicySimulator(context).methods(),
            },
            "sts": Sts(context).methods(),
            "elb": balancers.classic_methods(),
            "elbv2": balancers.methods(),
            "service-quotas": ServiceQuotas(context).methods(),
            "ssm": Ssm().methods(),
            "kms": Kms(context).methods(),
            "logs": logs.methods(),
            "resource-groups": ResourceGroups(context).methods(),
            "sqs": Sqs(context).methods(),
        }

    def google_account(self) -> str | None:
        """The account of application default credentials."""
        return google_account_of(self._context).application_default

    @property
    def methods(self) -> Mapping[str, Methods]:
        """Service -> the operations that it simulates."""
        return self._methods

    def call(self, service: str, method: str, params: JsonObject, body: JsonObject) -> JsonObject:
        """Raises CloudError, and ConnectionLost where an injected fault breaks the connection."""
        with self._log.call(service, method, {**params, **body}):
            try:
                return self._call(service, method, params, body)
            except AccountFileError as e:
                # No server error, which clients would send again and again.
                raise CloudError(400, "ACCOUNT_FILE", str(e)) from None

    def _call(self, service: str, method: str, params: JsonObject, body: JsonObject) -> JsonObject:
        methods = self._methods.get(service)
        if methods is None:
            raise google_error(
                404,
                f"The rehearsal's cloud has no service {service!r}; it has "
                f"{', '.join(sorted(self._methods))}.",
            )
        is_google = service in google_models.DOCUMENTS
        if is_google:
            google_models.validate(service, method, params, body)
            self._service_usage.require(service, params)
        else:
            aws_models.validate(service, method, body)
            if not params.get("region"):
                raise aws_error("InvalidSignatureException", "You must specify a region.")
            require(self._context, service, method, params["region"], body)
            if service == "ec2" and account_of(self._context).request_rates:
                self._rates.take(params["region"], method, body)
        fault = self._fault(service, method)
        if isinstance(fault, ConnectionReset) and not fault.carried_out:
            raise ConnectionLost
        handler = methods.get(method)
        if handler is None:
            names = ", ".join(sorted(methods))
            raise not_simulated(
                f"The rehearsal's cloud does not simulate {service} {method}; of this "
                f"service it has {names}."
            )
        if is_google:
            answer = handler(params, body)
        else:
            answer = answered_once(self._store, service, method, handler, params, body)
            aws_models.check_answer(service, method, answer)
        if isinstance(fault, ConnectionReset):
            raise ConnectionLost
        return answer

    def _fault(self, service: str, method: str) -> CallFault | None:
        """The fault that the call meets. Slowness has passed; errors are raised as CloudError."""
        try:
            fault = self._faults.call_fault(service, method)
        except FaultFileError as e:
            raise CloudError(400, "FAULT_FILE", str(e)) from None
        match fault:
            case None | ConnectionReset():
                return fault
            case Slowness():
                time.sleep(fault.delay_s)
                return fault
            case ApiError() | Throttling() | BackgroundUpdate():
                google = service in google_models.DOCUMENTS
                raise (injected_google_error if google else injected_aws_error)(service, fault)

    def _knows(self, method: str) -> bool:
        """Whether it is `service.method`, or a method of any service."""
        service, _, name = method.partition(".")
        return name in self._methods.get(service, ()) or any(
            method in methods for methods in self._methods.values()
        )

    def inventory(self) -> dict[str, list[str]]:
        """Kind -> names of every resource that exists; empty = everything was destroyed."""
        by_kind: dict[str, list[str]] = {}
        for service in self._services:
            for resource in service.inventory():
                by_kind.setdefault(resource["kind"], []).append(resource["name"])
        return by_kind

    def look_around(self) -> None:
        """What happens without a call: injected events, and work that the clouds take up again.

        Raises FaultFileError.
        """
        for event in self._faults.due_events():
            if any(service.disturb(event) for service in self._node_events):
                self._faults.record_event(event)
        for cloud in self._cluster_services:
            cloud.look_around()

    def resume(self) -> list[str]:
        """Restarts the clusters and the unfinished work of a killed predecessor.

        Returns the kinds of that work.
        """
        for service in self._cluster_services:
            try:
                service.restart_control_planes()
            except Exception:
                # The service starts all the same: without it nothing could be listed or deleted.
                log.exception("a cluster's control plane does not start again")
        return self.tasks.resume()

    def _delay_s(self, kind: str) -> float:
        """Seconds that a kind of task is delayed by E/cloud/delays.json, a JSON object of them."""
        try:
            delays = json.loads((self._environment / "cloud" / "delays.json").read_text())
            return float(delays.get(kind, 0))
        except FileNotFoundError:
            return 0.0
        except (ValueError, TypeError, AttributeError) as e:
            log.warning("delays.json is not a JSON object of seconds: %s", e)
            return 0.0
