"""The gRPC statuses that calls end with, by their numbers (https://grpc.io/docs/guides/status-codes/)."""

CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
INTERNAL = 13
UNAVAILABLE = 14
UNAUTHENTICATED = 16
