"""The `kubernetes` provider: operations and error messages for the engine's requests."""

from __future__ import annotations

import copy

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.kubeapi.kubeconfig import BadKubeconfig
from slicewright.rehearsal.plugins.engine.plugin import (
    Checked,
    CheckFailure,
    Created,
    Difference,
    InitFailed,
    ProviderError,
    ProviderPlugin,
    ReadBack,
    Severity,
)
from slicewright.rehearsal.plugins.engine.properties import Properties, unwrap
from slicewright.rehearsal.plugins.engine.requests import (
    CheckRequest,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DiffConfigRequest,
    DiffRequest,
    ReadRequest,
    UpdateRequest,
)
from slicewright.rehearsal.plugins.providers.kubernetes import (
    autonaming,
    error_messages,
    field_managers,
    kubeconfig,
    objects,
    previews,
    pulumi_annotations,
    removed_apis,
    state,
)
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster, NoSuchKind
from slicewright.rehearsal.plugins.providers.kubernetes.comparison import prune
from slicewright.rehearsal.plugins.providers.kubernetes.config_difference import config_difference
from slicewright.rehearsal.plugins.providers.kubernetes.difference import difference
from slicewright.rehearsal.plugins.providers.kubernetes.normalise import (
    copy_marks,
    mark_secret_kind,
    normalise,
)
from slicewright.rehearsal.plugins.providers.kubernetes.objects import Operation
from slicewright.rehearsal.plugins.providers.kubernetes.release import TYPE as RELEASE
from slicewright.rehearsal.plugins.providers.kubernetes.release import Releases
from slicewright.rehearsal.plugins.providers.kubernetes.scopes import Scopes
from slicewright.rehearsal.plugins.providers.kubernetes.settings import Settings
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import ShowStatus


class KubernetesProvider(ProviderPlugin):
    """One configured cluster. Whether it is reachable is decided once, by `configure`."""

    version = "4.34.2"

    def __init__(self) -> None:
        super().__init__()
        self._settings = Settings.from_inputs({})
        self._cluster: Cluster | None = None
        self._unreachable = "not configured"
        self._default_namespace = "default"
        self._scopes = Scopes()

    # Configuration.

    def diff_config(self, request: DiffConfigRequest) -> Difference:
        return config_difference(
            unwrap(request.old_inputs or request.old_outputs), unwrap(request.new_inputs)
        )

    def configure(self, request: ConfigureRequest) -> None:
        self._settings = settings = Settings.from_inputs(request.inputs)
        self._cluster = None
        try:
            context = kubeconfig.read(
                settings.kubeconfig, context=settings.context, cluster=settings.cluster
            )
            self._default_namespace = settings.namespace or context.namespace or "default"
            cluster = Cluster(context)
            cluster.probe()
            self._cluster = cluster
            self._scopes = Scopes(cluster)
        except (BadKubeconfig, Unreachable) as e:
            self._default_namespace = settings.namespace or self._default_namespace
            self._unreachable = f"unable to load schema information from the API server: {e}"
            self._scopes = Scopes()

    # Resources.

    def check(self, request: CheckRequest) -> Checked:
        inputs = request.new_inputs
        if self._cluster is None and self._settings.skip_update_unreachable and request.old_inputs:
            self.log(
                Severity.WARNING,
                "Cluster is unreachable but skipUpdateUnreachable flag is set to true, skipping...",
                request.urn,
            )
            return Checked(request.old_inputs)
        if request.type == RELEASE:
            return self._releases(request.urn).check(request)
        manifest: JsonObject = copy.deepcopy(unwrap(inputs))
        api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(api_version, str):
            return Checked(inputs, [CheckFailure("apiVersion", "must be set")])
        if not isinstance(kind, str):
            return Checked(inputs, [CheckFailure("kind", "must be set")])
        if request.type.split(":")[-1] == f"{kind}Patch":
            return Checked(
                inputs,
                [
                    CheckFailure(
                        "kind",
                        "Patch resources are not supported by the rehearsal's kubernetes provider",
                    )
                ],
            )
        if warning := removed_apis.warning(api_version, kind):
            self.log(Severity.WARNING, warning, request.urn)
        self._scopes.learn(manifest)
        if failure := autonaming.fill_name(manifest, request):
            return Checked(inputs, [failure])
        metadata = manifest["metadata"]
        if (
            isinstance(metadata, dict)
            and not metadata.get("namespace")
            and self._scopes.is_namespaced(api_version, kind)
        ):
            metadata["namespace"] = self._default_namespace
        return Checked(mark_secret_kind(copy_marks(normalise(manifest), inputs)))

    def diff(self, request: DiffRequest) -> Difference:
        if request.type == RELEASE:
            return self._releases(request.urn).diff(request)
        return difference(
            state.live_of(request.old_outputs),
            state.inputs_of(request.old_outputs, request.old_inputs),
            normalise(unwrap(request.new_inputs)),
            config_maps_mutable=self._settings.config_maps_mutable,
            secrets_mutable=self._settings.secrets_mutable,
        )

    def create(self, request: CreateRequest) -> Created:
        urn, inputs = request.urn, request.inputs
        if request.type == RELEASE:
            return self._releases(urn).create(request)
        manifest = normalise(unwrap(inputs))
        manager = field_managers.field_manager(manifest, {})
        if request.preview:
            return Created(
                "",
                previews.create(
                    self._dry_run(urn), request, manifest, manager, upsert=self._settings.upsert
                ),
            )
        op = self._operation(urn, manifest, request.timeout_s)
        try:
            live = (
                objects.upsert(op, manifest, manager=manager, force=self._forces(manifest))
                if self._settings.upsert
                else objects.create(op, manifest)
            )
        except NoSuchKind as e:
            raise ProviderError(error_messages.no_such_kind(urn, manifest, e)) from e
        except (ApiError, Unreachable) as e:
            raise ProviderError(error_messages.not_created(urn, e)) from e
        object_id = state.id_of(live)
        try:
            live = objects.settle(op, manifest, live)
        except objects.NotReady as e:
            raise InitFailed(
                id=object_id,
                outputs=_outputs(e.live or live, manifest, inputs, manager),
                reasons=error_messages.reasons_with(error_messages.created_but(urn), e.reasons),
            ) from e
        except objects.InvalidWaitFor as e:
            raise ProviderError(str(e)) from e
        return Created(object_id, _outputs(live, manifest, inputs, manager))

    def read(self, request: ReadRequest) -> ReadBack | None:
        inputs, outputs = request.inputs, request.outputs
        identity = state.identity(request.type, request.id, outputs)
        if self._cluster is None:
            self._unreachable_stored(request.urn, "read")
            return None
        if request.type == RELEASE:
            return self._releases(request.urn).read(request)
        old_inputs = state.inputs_of(outputs, inputs)
        op = self._operation(request.urn, old_inputs, request.timeout_s)
        try:
            live = objects.read(op, identity)
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e
        if live is None:
            return None
        new_inputs = prune(live, old_inputs) if old_inputs else state.inputs_from_live(live)
        stored = inputs or outputs.get("__inputs") or {}
        marked = stored if isinstance(stored, dict) else {}
        new_outputs = state.outputs_of(
            live,
            new_inputs,
            marked,
            initial_api_version=state.initial_api_version_of(outputs) or str(live["apiVersion"]),
            manager=field_managers.field_manager(live, outputs),
        )
        shown_inputs = mark_secret_kind(copy_marks(new_inputs, stored))
        try:
            reasons = objects.unhealthy_reasons(op, old_inputs or live, live)
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e
        if reasons:
            raise InitFailed(
                id=state.id_of(live), outputs=new_outputs, inputs=shown_inputs, reasons=reasons
            )
        return ReadBack(state.id_of(live), shown_inputs, new_outputs)

    def update(self, request: UpdateRequest) -> Properties:
        urn, inputs = request.urn, request.new_inputs
        if request.type == RELEASE:
            return self._releases(urn).update(request)
        manifest = normalise(unwrap(inputs))
        manager = field_managers.field_manager(manifest, request.old_outputs)
        force = self._forces(manifest)
        if request.preview:
            return previews.update(self._dry_run(urn), request, manifest, manager, force=force)
        initial = state.initial_api_version_of(request.old_outputs)

        def outputs(live: JsonObject) -> Properties:
            return _outputs(live, manifest, inputs, manager, initial)

        op = self._operation(urn, manifest, request.timeout_s)
        try:
            live = objects.update(
                op, manifest, manager=manager, force=force, ignored=request.ignored
            )
        except (objects.Gone, NoSuchKind) as e:
            raise ProviderError(error_messages.gone(urn, e)) from e
        except objects.UpdateRefused as e:
            why = error_messages.not_live(request.id, error_messages.refusal(e, manager))
            raise InitFailed(id=request.id, outputs=outputs(e.live), reasons=[why]) from e
        except (ApiError, Unreachable) as e:
            raise ProviderError(f'update of resource "{urn}" failed: {e}') from e
        try:
            live = objects.settle(op, manifest, live)
        except objects.NotReady as e:
            reasons = error_messages.reasons_with(
                error_messages.not_live(request.id, ""), e.reasons
            )
            raise InitFailed(id=request.id, outputs=outputs(e.live or live), reasons=reasons) from e
        except objects.InvalidWaitFor as e:
            why = error_messages.not_live(request.id, str(e))
            raise InitFailed(id=request.id, outputs=outputs(live), reasons=[why]) from e
        return outputs(live)

    def delete(self, request: DeleteRequest) -> None:
        if request.type == RELEASE:
            # Helm needs the cluster to uninstall, so deleteUnreachable does not apply here.
            self._releases(request.urn).delete(request)
            return
        if self._cluster is None:
            self._unreachable_stored(request.urn, "delete")
            return
        identity = state.identity(request.type, request.id, request.outputs)
        manifest = state.live_of(request.outputs) or identity
        if not (manifest.get("metadata") or {}).get("name"):
            manifest = identity
        op = self._operation(request.urn, manifest, request.timeout_s)
        try:
            objects.delete(op, manifest)
        except objects.NotReady as e:
            if finalizers := (e.live.get("metadata") or {}).get("finalizers"):
                self.log(
                    Severity.WARNING,
                    f"finalizers might be preventing deletion ({', '.join(finalizers)})",
                    request.urn,
                )
            raise ProviderError(e.reasons[0]) from e
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e

    # Shared by the operations.

    def _operation(self, urn: str, manifest: JsonObject, custom_timeout_s: float) -> Operation:
        return Operation(
            cluster=self._reachable(),
            show_status=self._show_status(urn),
            cancelled=self.cancelled,
            timeout_s=pulumi_annotations.timeout_s(manifest, custom_timeout_s),
            await_all=self._settings.await_all,
        )

    def _forces(self, manifest: JsonObject) -> bool:
        """Whether to take over fields that another manager owns."""
        forced = pulumi_annotations.annotation(manifest, pulumi_annotations.PATCH_FORCE)
        return self._settings.patch_force or forced == "true"

    def _reachable(self) -> Cluster:
        if self._cluster is None:
            raise ProviderError(
                f"configured Kubernetes cluster is unreachable: {self._unreachable}"
            )
        return self._cluster

    def _show_status(self, urn: str) -> ShowStatus:
        return lambda severity, text: self.log(severity, text, urn, ephemeral=True)

    def _releases(self, urn: str) -> Releases:
        return Releases(
            cluster=self._reachable,
            default_namespace=self._default_namespace,
            scopes=self._scopes,
            show_status=self._show_status(urn),
            cancelled=self.cancelled,
        )

    def _dry_run(self, urn: str) -> Operation | None:
        """For previews; None if the cluster is unreachable."""
        return self._operation(urn, {}, 0) if self._cluster is not None else None

    def _unreachable_stored(self, urn: str, verb: str) -> None:
        """Raises ProviderError unless deleteUnreachable is set, which drops the resource."""
        self.log(
            Severity.WARNING,
            f"configured Kubernetes cluster is unreachable: {self._unreachable}",
            urn,
        )
        if self._settings.delete_unreachable:
            return
        raise ProviderError(
            f"failed to {verb} resource state due to unreachable cluster. If the cluster "
            "was deleted, you can remove this "
            "resource from Pulumi state by rerunning the operation with the "
            "PULUMI_K8S_DELETE_UNREACHABLE environment variable "
            'set to "true"'
        )


def _outputs(
    live: JsonObject,
    manifest: JsonObject,
    marked: Properties,
    manager: str,
    initial_api_version: str = "",
) -> Properties:
    initial = initial_api_version or str(manifest["apiVersion"])
    return state.outputs_of(live, manifest, marked, initial_api_version=initial, manager=manager)
