"""All simulated services behind one door: a call is judged by the cloud's model, may be struck by a
fault, and is answered.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from kubeapi import JsonObject
from rehearsal.clouds.aws import models as aws_models
from rehearsal.clouds.aws.ec2 import Ec2
from rehearsal.clouds.aws.eks import Eks
from rehearsal.clouds.aws.iam import AwsIam
from rehearsal.clouds.core.context import Context, Methods
from rehearsal.clouds.core.control_planes import ControlPlanes
from rehearsal.clouds.core.errors import CloudError, aws_error, google_error
from rehearsal.clouds.core.faults import Faults
from rehearsal.clouds.core.store import Store
from rehearsal.clouds.core.tasks import Tasks
from rehearsal.clouds.gcp import models as google_models
from rehearsal.clouds.gcp.compute import Compute
from rehearsal.clouds.gcp.gke import Gke
from rehearsal.clouds.gcp.iam import GoogleIam

log = logging.getLogger(__name__)


class Cloud:
    """State under E/cloud. Calls may come from many threads; each holds the store's lock only while
    it looks and writes.
    """

    def __init__(
        self, environment: Path, planes: ControlPlanes, *, ready_timeout_s: float = 120.0
    ) -> None:
        self._environment = environment
        store = Store(environment / "cloud")
        self.tasks = Tasks(store, self._delay_s)
        self._faults = Faults(environment / "faults.json", store)
        context = Context(store, self.tasks, planes, self._faults, ready_timeout_s)
        google_iam, compute, gke = GoogleIam(context), Compute(context), Gke(context)
        aws_iam, ec2 = AwsIam(context), Ec2(context)
        eks = Eks(context)
        self._clusters = (gke, eks)
        self._services = (gke, compute, google_iam, eks, ec2, aws_iam)
        self._methods: Mapping[str, Methods] = {
            "container": gke.methods(),
            "compute": compute.methods(),
            "iam": google_iam.methods(),
            "cloudresourcemanager": google_iam.policy_methods(),
            "eks": eks.methods(),
            "ec2": ec2.methods(),
            "aws-iam": aws_iam.methods(),
        }

    def call(self, service: str, method: str, params: JsonObject, body: JsonObject) -> JsonObject:
        """Raises CloudError."""
        methods = self._methods.get(service)
        if methods is None:
            raise google_error(
                404,
                f"The rehearsal's cloud has no service {service!r}; it has "
                f"{', '.join(sorted(self._methods))}.",
            )
        if service in google_models.DOCUMENTS:
            google_models.validate(service, method, params, body)
        else:
            aws_models.validate(service, method, body)
            if not params.get("region"):
                raise aws_error("InvalidSignatureException", "You must specify a region.")
        self._faults.before_call(service, method)
        handler = methods.get(method)
        if handler is None:
            known = ", ".join(sorted(methods))
            raise CloudError(
                501,
                "NOT_SIMULATED",
                f"The rehearsal's cloud does not simulate {service} {method}; of this "
                f"service it has {known}.",
            )
        return handler(params, body)

    def inventory(self) -> dict[str, list[str]]:
        """Kind -> names of everything that exists and would cost or be in the way; empty =
        destroyed to the last thing.
        """
        found: dict[str, list[str]] = {}
        for thing in (thing for service in self._services for thing in service.inventory()):
            found.setdefault(thing["kind"], []).append(thing["name"])
        return found

    def resume(self) -> list[str]:
        """Takes up what a killed predecessor left: running clusters run, begun work goes on.
        Returns the kinds of that work.
        """
        for clusters in self._clusters:
            try:
                clusters.revive()
            except Exception:
                # The service must come up all the same: it is what can still say what exists, and
                # delete it.
                log.exception("a cluster's control plane does not start again")
        return self.tasks.resume()

    def _delay_s(self, kind: str) -> float:
        """E/cloud/delays.json: {"container.clusters.create": 2.5}; what is not named takes only the
        time that the work takes.
        """
        try:
            delays = json.loads((self._environment / "cloud" / "delays.json").read_text())
            return float(delays.get(kind, 0))
        except FileNotFoundError:
            return 0.0
        except (ValueError, TypeError, AttributeError) as e:
            log.warning("delays.json is not a JSON object of seconds: %s", e)
            return 0.0
