"""The link between actors and a learner: gRPC, with records that wait on disk until the learner has them."""

import os

# gRPC's own resolver asks DNS alone, not what the system knows besides: NAME.local (mDNS), NetBIOS, LDAP. It is read
# when grpc is imported, so it is said before any module of this package does that.
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
