"""The entry of a Pulumi program: `from slicewright.infra.entry import main; main()`.

It imports the clouds' SDKs only after it has turned off the garbage collector.
"""

import gc


def main() -> None:
    """Deploys the fleet of the stack that Pulumi runs."""
    # The SDKs of the clouds create 400,000 objects that stay until the program ends. Looking
    # through them for garbage again and again took a tenth of a preview's processor time.
    gc.disable()
    from slicewright.infra import program

    program.main()
