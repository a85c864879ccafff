"""Whether the caller's policies allow a request to the simulated AWS."""

from slicewright.rehearsal.clouds.aws.authorization.eks import eks_arn as eks_arn
from slicewright.rehearsal.clouds.aws.authorization.requirement import require as require
