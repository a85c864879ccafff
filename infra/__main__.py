"""What `pulumi` runs."""

import gc


def _run() -> None:
    # The SDKs of the clouds create 400,000 objects that stay until the program ends. Looking
    # through them for garbage again and again took a tenth of a preview's processor time.
    gc.disable()
    from slicewright.infra.program import main

    main()


_run()
