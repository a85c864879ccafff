"""Connections of this process to servers outside of a cluster."""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3


@cache
def _pool_of(proxy: str | None) -> urllib3.PoolManager:
    return urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()


def pool(url: str) -> urllib3.PoolManager:
    """Through the proxy that the environment names for this URL, as Google's own clients go."""
    parts = urlsplit(url)
    passed_by = proxy_bypass(parts.netloc)
    return _pool_of(None if passed_by else getproxies().get(parts.scheme))
