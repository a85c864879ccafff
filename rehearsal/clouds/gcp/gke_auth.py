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
    known = clusters()
    server = exec_info().get("spec", {}).get("cluster", {}).get("server", "")
    if server:
        for name, address in known.items():
            if address.rstrip("/") == server.rstrip("/"):
                return credential(name)
        listed = ", ".join(f"{n} at {a}" for n, a in known.items()) or "none"
        raise NoCredential(f"no cluster of the rehearsal listens at {server}; there are: {listed}")
    if len(known) == 1:
        return credential(next(iter(known)))
    raise NoCredential(
        f"which of {', '.join(known) or 'no'} clusters? "
        "set provideClusterInfo: true in the kubeconfig so that kubectl names the server"
    )


if __name__ == "__main__":
    if "--version" in sys.argv[1:]:
        print("Kubernetes v1.36.2-rehearsal (simulated)")
        sys.exit(0)
    sys.exit(run("gke-gcloud-auth-plugin (rehearsal)", answer))
