"""What kube-proxy and a cloud's load balancers do for Services, on addresses of this machine."""
