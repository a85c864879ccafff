"""Numbers of nodes that may also be percentages, as Kubernetes writes them: `2` or `25%`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from slicewright.apis.gpu_pool.settings import NodeShareBounds
from slicewright.infra.stack_file.schema.constraints import Constraint, ConstraintError


@dataclass(frozen=True, kw_only=True)
class ShareOfNodes(Constraint):
    """The number of nodes, or the percentage of them, that a key may have."""

    key: str
    bounds: NodeShareBounds
    source: str

    @property
    def example(self) -> int:
        return self.bounds.minimum

    def check(self, value: Any) -> Any:
        if reason := self.bounds.refusal(value):
            raise ConstraintError(reason, self._instead(value), self.source)
        return value

    def _instead(self, value: Any) -> str:
        if isinstance(value, str) and value.isdecimal() and not self.bounds.refusal(int(value)):
            return f"write {int(value)} without quotes for nodes, or {int(value)}%"
        least, most = self.bounds.minimum, self.bounds.maximum
        allowed = f"write {least} to {most}, or a percentage such as 25%"
        return f"leave {self.key} out, or {allowed}" if value is None else allowed

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        # A union of number and text would report two problems for a wrong value.
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        bounds = self.bounds
        return {
            "anyOf": [
                {"type": "integer", "minimum": bounds.minimum, "maximum": bounds.maximum},
                {"type": "string", "pattern": bounds.pattern},
            ]
        }
