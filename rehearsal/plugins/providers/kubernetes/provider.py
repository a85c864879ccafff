"""The `kubernetes` provider towards the engine: which object operation each request means, and in
which words it fails.
"""

# ruff: noqa: A001, A002 - `id` and `type` are the protocol's words

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from kubeapi import ApiError, Unreachable
from rehearsal.plugins.engine.plugin import (
    Autonaming,
    Checked,
    CheckFailure,
    Created,
    Difference,
    InitFailed,
    Properties,
    ProviderError,
    ProviderPlugin,
    ReadBack,
    Severity,
    unwrap,
)
from rehearsal.plugins.providers.kubernetes import (
    directives,
    kubeconfig,
    names,
    objects,
    previews,
    removed_apis,
    state,
    texts,
)
from rehearsal.plugins.providers.kubernetes.cluster import Cluster, NoSuchKind
from rehearsal.plugins.providers.kubernetes.difference import difference
from rehearsal.plugins.providers.kubernetes.normalise import copy_marks, mark_secret_kind, normalise
from rehearsal.plugins.providers.kubernetes.provider_config import config_difference
from rehearsal.plugins.providers.kubernetes.release_resource import TYPE as RELEASE
from rehearsal.plugins.providers.kubernetes.release_resource import Releases
from rehearsal.plugins.providers.kubernetes.scopes import Scopes
from rehearsal.plugins.providers.kubernetes.settings import Settings
from rehearsal.plugins.providers.kubernetes.shape import prune
from rehearsal.plugins.providers.kubernetes.waiting import Say


class KubernetesProvider(ProviderPlugin):
    """One configured cluster, reachable or not: that is decided once, when it is configured."""

    version = "4.34.2"

    def __init__(self) -> None:
        super().__init__()
        self._settings = Settings.of({})
        self._cluster: Cluster | None = None
        self._unreachable = "not configured"
        self._default_namespace = "default"
        self._scopes = Scopes()

    # Configuration.

    def diff_config(
        self,
        urn: str,
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        ignore_changes: Sequence[str],
    ) -> Difference:
        return config_difference(unwrap(old_inputs or old_outputs), unwrap(news))

    def configure(self, variables: Mapping[str, str], args: Properties) -> None:
        self._settings = settings = Settings.of(args)
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
        except (kubeconfig.BadKubeconfig, Unreachable) as e:
            self._default_namespace = settings.namespace or self._default_namespace
            self._unreachable = f"unable to load schema information from the API server: {e}"
            self._scopes = Scopes()

    # Resources.

    def check(
        self,
        urn: str,
        type: str,
        name: str,
        olds: Properties,
        news: Properties,
        random_seed: bytes,
        autonaming: Autonaming | None,
    ) -> Checked:
        if self._cluster is None and self._settings.skip_update_unreachable and olds:
            self.log(
                Severity.WARNING,
                "Cluster is unreachable but skipUpdateUnreachable flag is set to true, skipping...",
                urn,
            )
            return Checked(olds)
        if type == RELEASE:
            return self._releases().check(name, olds, news)
        manifest = copy.deepcopy(unwrap(news))
        api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return Checked(
                news,
                [
                    CheckFailure(
                        "apiVersion" if not isinstance(api_version, str) else "kind",
                        "must be given",
                    )
                ],
            )
        if type.endswith("Patch") and type.split(":")[-1] == f"{kind}Patch":
            return Checked(
                news,
                [
                    CheckFailure(
                        "kind",
                        "Patch resources are not supported by the rehearsal's kubernetes provider",
                    )
                ],
            )
        if warning := removed_apis.warning(api_version, kind):
            self.log(Severity.WARNING, warning, urn)
        self._scopes.learn(manifest)
        if failure := names.fill_name(manifest, unwrap(olds), name, random_seed, autonaming):
            return Checked(news, [failure])
        metadata = manifest["metadata"]
        if (
            isinstance(metadata, dict)
            and not metadata.get("namespace")
            and self._scopes.is_namespaced(api_version, kind)
        ):
            metadata["namespace"] = self._default_namespace
        return Checked(mark_secret_kind(copy_marks(normalise(manifest), news)))

    def diff(
        self,
        urn: str,
        type: str,
        id: str,
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        ignore_changes: Sequence[str],
    ) -> Difference:
        if type == RELEASE:
            return self._releases().diff(old_outputs, old_inputs, news)
        return difference(
            state.live_of(old_outputs),
            state.inputs_of(old_outputs, old_inputs),
            normalise(unwrap(news)),
            config_maps_mutable=self._settings.config_maps_mutable,
            secrets_mutable=self._settings.secrets_mutable,
        )

    def create(
        self, urn: str, type: str, name: str, inputs: Properties, timeout_s: float, preview: bool
    ) -> Created:
        if type == RELEASE:
            return self._releases().create(inputs, preview, self._say(urn), self.cancelled)
        manifest = normalise(unwrap(inputs))
        manager = names.field_manager(manifest, {})
        if preview:
            return Created(
                "",
                previews.create(
                    self._dry(urn), urn, manifest, inputs, manager, upsert=self._settings.upsert
                ),
            )
        op = self._operation(urn, manifest, timeout_s)
        force = (
            self._settings.patch_force
            or directives.annotation(manifest, directives.PATCH_FORCE) == "true"
        )
        try:
            live = (
                objects.upsert(op, manifest, manager=manager, force=force)
                if self._settings.upsert
                else objects.create(op, manifest)
            )
        except NoSuchKind as e:
            raise ProviderError(
                f'creation of resource "{urn}" with kind '
                f"{manifest['apiVersion']}/{manifest['kind']} failed because the "
                "Kubernetes API server reported that the apiVersion for this resource does "
                "not exist. Verify that any required "
                f"CRDs have been created: {e}"
            ) from e
        except (ApiError, Unreachable) as e:
            raise ProviderError(texts.not_created(urn, e)) from e
        id = state.id_of(live)
        try:
            live = objects.settle(op, manifest, live)
        except objects.NotReady as e:
            outputs = self._outputs(e.live or live, manifest, inputs, manager)
            raise InitFailed(
                id, outputs, None, texts.reasons_with(texts.created_but(urn), e.reasons)
            ) from e
        except objects.BadForm as e:
            raise ProviderError(str(e)) from e
        return Created(id, self._outputs(live, manifest, inputs, manager))

    def read(
        self,
        urn: str,
        type: str,
        id: str,
        outputs: Properties,
        inputs: Properties,
        timeout_s: float,
    ) -> ReadBack | None:
        wanted = state.identity(type, id, outputs)
        if self._cluster is None:
            self._unreachable_stored(urn, "read")
            return None
        if type == RELEASE:
            return self._releases().read(id, outputs, inputs)
        old_inputs = state.inputs_of(outputs, inputs)
        op = self._operation(urn, old_inputs, timeout_s)
        try:
            live = objects.read(op, wanted)
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e
        if live is None:
            return None
        new_inputs = prune(live, old_inputs) if old_inputs else state.inputs_from_live(live)
        manager = names.field_manager(live, unwrap(outputs))
        marked = inputs or outputs.get("__inputs") or {}
        new_outputs = state.outputs_of(
            live,
            new_inputs,
            marked if isinstance(marked, dict) else {},
            initial_api_version=state.initial_api_version_of(outputs) or str(live["apiVersion"]),
            manager=manager,
        )
        shown_inputs = mark_secret_kind(copy_marks(new_inputs, marked))
        try:
            reasons = objects.ill_health(op, old_inputs or live, live)
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e
        if reasons:
            raise InitFailed(state.id_of(live), new_outputs, shown_inputs, reasons)
        return ReadBack(state.id_of(live), shown_inputs, new_outputs)

    def update(
        self,
        urn: str,
        type: str,
        id: str,
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        timeout_s: float,
        ignore_changes: Sequence[str],
        preview: bool,
    ) -> Properties:
        if type == RELEASE:
            return self._releases().update(id, news, preview, self._say(urn), self.cancelled)
        manifest = normalise(unwrap(news))
        manager = names.field_manager(manifest, unwrap(old_outputs))
        initial = state.initial_api_version_of(old_outputs)
        force = (
            self._settings.patch_force
            or directives.annotation(manifest, directives.PATCH_FORCE) == "true"
        )
        if preview:
            return previews.update(
                self._dry(urn), urn, id, manifest, news, manager, initial, force=force
            )
        op = self._operation(urn, manifest, timeout_s)
        try:
            live = objects.update(op, manifest, manager=manager, force=force)
        except (objects.Gone, NoSuchKind) as e:
            raise ProviderError(texts.gone(urn, e)) from e
        except objects.Refused as e:
            outputs = self._outputs(e.live, manifest, news, manager, initial)
            raise InitFailed(
                id, outputs, None, [texts.not_live(id, texts.refusal(e, manager))]
            ) from e
        except (ApiError, Unreachable) as e:
            raise ProviderError(f'update of resource "{urn}" failed: {e}') from e
        try:
            live = objects.settle(op, manifest, live)
        except objects.NotReady as e:
            outputs = self._outputs(e.live or live, manifest, news, manager, initial)
            raise InitFailed(
                id, outputs, None, texts.reasons_with(texts.not_live(id, ""), e.reasons)
            ) from e
        except objects.BadForm as e:
            raise InitFailed(
                id,
                self._outputs(live, manifest, news, manager, initial),
                None,
                [texts.not_live(id, str(e))],
            ) from e
        return self._outputs(live, manifest, news, manager, initial)

    def delete(
        self,
        urn: str,
        type: str,
        id: str,
        outputs: Properties,
        old_inputs: Properties,
        timeout_s: float,
    ) -> None:
        if type == RELEASE:
            # Helm's removal needs the cluster: even the flag that drops unreachable objects does
            # not help here.
            self._releases().delete(id, outputs, self._say(urn), self.cancelled)
            return
        if self._cluster is None:
            self._unreachable_stored(urn, "delete")
            return
        manifest = state.live_of(outputs) or state.identity(type, id, outputs)
        if not (manifest.get("metadata") or {}).get("name"):
            manifest = state.identity(type, id, outputs)
        op = self._operation(urn, manifest, timeout_s)
        try:
            objects.delete(op, manifest)
        except objects.NotReady as e:
            if finalizers := (e.live.get("metadata") or {}).get("finalizers"):
                self.log(
                    Severity.WARNING,
                    f"finalizers might be preventing deletion ({', '.join(finalizers)})",
                    urn,
                )
            raise ProviderError(e.reasons[0]) from e
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e

    # What they share.

    def _operation(
        self, urn: str, manifest: Mapping[str, Any], custom_timeout_s: float
    ) -> objects.Operation:
        return objects.Operation(
            cluster=self._reachable(),
            say=self._say(urn),
            cancelled=self.cancelled,
            timeout_s=directives.timeout_s(dict(manifest), custom_timeout_s),
            await_all=self._settings.await_all,
        )

    def _reachable(self) -> Cluster:
        if self._cluster is None:
            raise ProviderError(
                f"configured Kubernetes cluster is unreachable: {self._unreachable}"
            )
        return self._cluster

    def _say(self, urn: str) -> Say:
        return lambda severity, text: self.log(severity, text, urn, ephemeral=True)

    def _releases(self) -> Releases:
        return Releases(self._reachable, self._default_namespace, self._scopes)

    def _dry(self, urn: str) -> objects.Operation | None:
        """For previews; None without a cluster to ask."""
        return self._operation(urn, {}, 0) if self._cluster is not None else None

    def _outputs(
        self,
        live: dict[str, Any],
        manifest: dict[str, Any],
        marked: Properties,
        manager: str,
        initial_api_version: str = "",
    ) -> Properties:
        initial = initial_api_version or str(manifest["apiVersion"])
        return state.outputs_of(
            live, manifest, marked, initial_api_version=initial, manager=manager
        )

    def _unreachable_stored(self, urn: str, verb: str) -> None:
        """Returns where the flag says that what cannot be reached is gone; else raises
        ProviderError.
        """
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
