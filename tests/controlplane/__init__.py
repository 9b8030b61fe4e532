"""A real etcd, kube-apiserver and kube-scheduler on loopback, for end-to-end tests.

`fixtures` is what tests use; the rest is what it stands on: `binaries` (found or built from
`kube/`), `processes`, `ports` and `waiting` (children and deadlines), `certs`, `kubeconfig`,
`client` and `api` (talking to the API server), `scheduler` and `plane` (the programs).
"""
