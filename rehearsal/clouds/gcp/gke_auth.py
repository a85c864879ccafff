"""A rehearsal's `gke-gcloud-auth-plugin`: an ExecCredential for the cluster of the kubeconfig."""

import sys

from slicewright.rehearsal.clouds.core.exec_credential import (
    NoCredential,
    clusters,
    credential,
    exec_info,
    run,
)


def answer() -> str:
    clusters_by_name = clusters()
    server = exec_info().get("spec", {}).get("cluster", {}).get("server", "")
    if server:
        for name, address in clusters_by_name.items():
            if address.rstrip("/") == server.rstrip("/"):
                return credential(name)
        listed = ", ".join(f"{n} at {a}" for n, a in clusters_by_name.items()) or "none"
        raise NoCredential(f"no cluster of the rehearsal listens at {server}; there are: {listed}")
    if len(clusters_by_name) == 1:
        return credential(next(iter(clusters_by_name)))
    raise NoCredential(
        f"which of {', '.join(clusters_by_name) or 'no'} clusters? "
        "set provideClusterInfo: true in the kubeconfig so that kubectl names the server"
    )


if __name__ == "__main__":
    if "--version" in sys.argv[1:]:
        print("Kubernetes v1.36.2-rehearsal (simulated)")
        sys.exit(0)
    sys.exit(run("gke-gcloud-auth-plugin (rehearsal)", answer))
