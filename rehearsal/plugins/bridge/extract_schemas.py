"""`python -m slicewright.rehearsal.plugins.bridge.extract_schemas` writes schema.json of gcp and
aws.

The Pulumi SDKs are generated from the real providers' schemas, so the installed SDKs' classes give
what a check needs: property names as on the wire, types, what is required. They are parsed, not
imported: importing takes seconds, and annotations lose their names.
"""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slicewright.kubeapi import JsonObject

RESOURCES: Mapping[str, Mapping[str, str]] = {
    "gcp": {
        "gcp:compute/network:Network": "compute/network",
        "gcp:compute/subnetwork:Subnetwork": "compute/subnetwork",
        "gcp:compute/firewall:Firewall": "compute/firewall",
        "gcp:compute/router:Router": "compute/router",
        "gcp:compute/routerNat:RouterNat": "compute/router_nat",
        "gcp:serviceaccount/account:Account": "serviceaccount/account",
        "gcp:projects/iAMMember:IAMMember": "projects/iam_member",
        "gcp:container/cluster:Cluster": "container/cluster",
        "gcp:container/nodePool:NodePool": "container/node_pool",
    },
    "aws": {
        "aws:ec2/vpc:Vpc": "ec2/vpc",
        "aws:ec2/internetGateway:InternetGateway": "ec2/internet_gateway",
        "aws:ec2/subnet:Subnet": "ec2/subnet",
        "aws:ec2/routeTable:RouteTable": "ec2/route_table",
        "aws:ec2/routeTableAssociation:RouteTableAssociation": "ec2/route_table_association",
        "aws:ec2/eip:Eip": "ec2/eip",
        "aws:ec2/natGateway:NatGateway": "ec2/nat_gateway",
        "aws:ec2/placementGroup:PlacementGroup": "ec2/placement_group",
        "aws:ec2/launchTemplate:LaunchTemplate": "ec2/launch_template",
        "aws:iam/role:Role": "iam/role",
        "aws:iam/rolePolicy:RolePolicy": "iam/role_policy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "iam/role_policy_attachment",
        "aws:eks/cluster:Cluster": "eks/cluster",
        "aws:eks/nodeGroup:NodeGroup": "eks/node_group",
        "aws:eks/addon:Addon": "eks/addon",
        "aws:eks/podIdentityAssociation:PodIdentityAssociation": "eks/pod_identity_association",
        "aws:eks/accessEntry:AccessEntry": "eks/access_entry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "eks/access_policy_association",
    },
}
_SCALARS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "Any": "any"}


def main() -> None:
    for package, resources in RESOURCES.items():
        path = Path(__file__).parents[1] / "providers" / package / "schema.json"
        path.write_text(json.dumps(extract(package, resources), indent=1, sort_keys=True) + "\n")
        print(f"wrote {path}")


def extract(package: str, resources: Mapping[str, str]) -> JsonObject:
    spec = importlib.util.find_spec(f"pulumi_{package}")
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    schemas: JsonObject = {"resources": {}, "types": {}}
    trees: dict[str, dict[str, ast.ClassDef]] = {}
    for token, source in resources.items():
        name = token.rpartition(":")[2]
        module = source.partition("/")[0]
        classes = _classes(root / f"{source}.py")
        if module not in trees:
            inputs = root / module / "_inputs.py"
            trees[module] = _classes(inputs) if inputs.exists() else {}
        inputs_found = dict(_properties(classes[f"{name}Args"], module))
        schemas["resources"][token] = {
            "inputs": inputs_found,
            "outputs": sorted(k for k, _ in _properties(classes[name], module)),
        }
        _collect(schemas["types"], trees[module], module, inputs_found)
    return schemas


def _collect(
    types: JsonObject,
    classes: Mapping[str, ast.ClassDef],
    module: str,
    properties: Mapping[str, JsonObject],
) -> None:
    for schema in properties.values():
        reference = _reference(schema["type"])
        if reference and reference not in types:
            types[reference] = dict(
                _properties(classes[reference.partition("/")[2] + "Args"], module)
            )
            _collect(types, classes, module, types[reference])


def _reference(kind: Any) -> str | None:
    while isinstance(kind, dict):
        if "object" in kind:
            return str(kind["object"])
        kind = kind.get("list", kind.get("map"))
    return None


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    return {n.name: n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)}


def _properties(node: ast.ClassDef, module: str) -> Iterator[tuple[str, JsonObject]]:
    for function in node.body:
        if not isinstance(function, ast.FunctionDef) or function.returns is None:
            continue
        for decorator in function.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(call) != "pulumi.getter":
                continue
            wire = function.name
            if isinstance(decorator, ast.Call):
                wire = next(
                    ast.literal_eval(k.value) for k in decorator.keywords if k.arg == "name"
                )
            kind, optional = _type(function.returns, module)
            yield wire, {"type": kind, **({} if optional else {"required": True})}


def _type(node: ast.expr, module: str) -> tuple[Any, bool]:
    """The schema type of an annotation, and whether it may be left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {"object": f"{module}/{node.value.removesuffix('Args')}"}, False
    if isinstance(node, ast.Subscript):
        outer = ast.unparse(node.value).rpartition(".")[2]
        if outer in ("Input", "Output"):
            return _type(node.slice, module)
        if outer == "Optional":
            return _type(node.slice, module)[0], True
        if outer == "Sequence":
            return {"list": _type(node.slice, module)[0]}, False
        if outer == "Mapping":
            assert isinstance(node.slice, ast.Tuple)
            return {"map": _type(node.slice.elts[1], module)[0]}, False
        if outer == "Union":
            assert isinstance(node.slice, ast.Tuple)
            # An enum or a string; archives and assets do not occur in these resources.
            return _type(node.slice.elts[0], module)
    name = ast.unparse(node).rpartition(".")[2]
    if name in _SCALARS:
        return _SCALARS[name], False
    return "string", False


if __name__ == "__main__":
    main()
