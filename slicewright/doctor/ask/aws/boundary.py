"""Asks IAM whether a permissions boundary exists. It only reads."""

from __future__ import annotations

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.findings import Answer


def ask_boundary(session: AwsSession, arn: str | None) -> Answer[bool] | None:
    """Returns None if there is no boundary to ask for."""
    return None if arn is None else session.answer("iam:GetPolicy", lambda: _exists(session, arn))


def _exists(session: AwsSession, arn: str) -> bool:
    try:
        session.client("iam", session.home).get_policy(PolicyArn=arn)
    except session.errors.ClientError as e:
        if code_of(e) != "NoSuchEntity":
            raise
        return False
    return True
