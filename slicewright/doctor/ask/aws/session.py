"""A session with an AWS account, through botocore, which turns failed questions into answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from slicewright.doctor.checks.eks.rights import home_region
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered
from slicewright.processes.waits import Wait

_T = TypeVar("_T")
LOGIN: Final = (
    "run `aws sso login`, or `aws configure` (`aws sts get-caller-identity` shows who you are)"
)
_REFUSED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ForbiddenException",
        "UnauthorizedOperation",
        "UnauthorizedException",
    }
)


class AwsSession:
    """Clients by service, for one region and the home region of its partition."""

    def __init__(self, region: str, profile: str | None) -> None:
        """profile: None for AWS's default choice. Raises CannotAsk."""
        try:
            from botocore import exceptions
            from botocore.config import Config
            from botocore.session import Session
        except ImportError:
            raise CannotAsk(
                "checks in AWS require botocore; install it next to slicewright: "
                "pip install botocore"
            ) from None
        self.errors = exceptions
        self.region = region
        self.profile = profile
        self.home = home_region(region)
        # Few retries: the person who asked can ask again.
        self._config = Config(
            connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 3}
        )
        self._clients: dict[tuple[str, str], Any] = {}
        try:
            self._session = Session(profile=profile)
            credentials = self._session.get_credentials()
        except exceptions.BotoCoreError as e:
            raise CannotAsk(f"AWS credentials cannot be used: {e}; {LOGIN}") from None
        if credentials is None:
            raise CannotAsk(f"no AWS credentials were found; {LOGIN}")

    def client(
        self,
        service: str,
        region: str | None = None,
        *,
        endpoint: str | None = None,
        by_path: bool = False,
    ) -> Any:
        """Returns a client of the service.

        region: None for the session's region. endpoint: a URL in place of the service's. by_path:
        the path names the bucket, not the host.
        """
        key = (service, region or self.region)
        if key not in self._clients:
            config = self._config
            if by_path:
                config = config.merge(type(config)(s3={"addressing_style": "path"}))
            client = self._session.create_client(
                service, region_name=key[1], config=config, endpoint_url=endpoint
            )
            wait = Wait(f"waiting for {client.meta.endpoint_url}")
            # botocore emits the second event after each attempt, also after a failed one.
            client.meta.events.register_first("before-send", lambda **_: wait.begin())
            client.meta.events.register_first("needs-retry", lambda **_: wait.end())
            self._clients[key] = client
        return self._clients[key]

    def answer(self, right: str, read: Callable[[], _T]) -> Answer[_T]:
        """right: the IAM action that the question needs."""
        try:
            return read()
        except self.errors.ClientError as e:
            if is_refusal(e):
                return NotAnswered(
                    why=f"the right {right} is missing ({error_text(e)})",
                    remedy=f"ask an administrator to allow {right} for this identity",
                )
            return NotAnswered(why=error_text(e))
        except self.errors.BotoCoreError as e:
            return NotAnswered(why=str(e))


def code_of(error: Any) -> str:
    """Returns the error code. error: botocore's ClientError."""
    return str(error.response["Error"]["Code"])


def is_refusal(error: Any) -> bool:
    """True if a right is missing."""
    return code_of(error) in _REFUSED


def error_text(error: Any) -> str:
    """Returns the code and the message of botocore's ClientError."""
    return f"{code_of(error)}: {error.response['Error'].get('Message', '')}".rstrip(": ")
