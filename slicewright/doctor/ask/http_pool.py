"""Connections of this process to servers outside a cluster."""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3


@cache
def _pool_of(proxy: str | None) -> urllib3.PoolManager:
    return urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()


def pool(url: str) -> urllib3.PoolManager:
    """Uses the proxy that the environment names for this URL, like Google's own clients."""
    parts = urlsplit(url)
    passed_by = proxy_bypass(parts.netloc)
    return _pool_of(None if passed_by else getproxies().get(parts.scheme))
