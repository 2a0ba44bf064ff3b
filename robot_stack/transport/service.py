"""The calls of learner.proto, made from what the file declares: a stub for peers, and the handlers of a server."""

from __future__ import annotations

from typing import Any

import grpc

from robot_stack.transport import learner_pb2

_SERVICE = learner_pb2.DESCRIPTOR.services_by_name["Learner"]


class LearnerStub:
    """The calls of a learner over one channel, to be called as gRPC says."""

    Hello: grpc.UnaryUnaryMultiCallable
    PushSteps: grpc.StreamStreamMultiCallable
    WatchParams: grpc.UnaryStreamMultiCallable
    WatchScores: grpc.UnaryStreamMultiCallable
    Label: grpc.UnaryUnaryMultiCallable
    Mark: grpc.UnaryUnaryMultiCallable
    Status: grpc.UnaryUnaryMultiCallable

    def __init__(self, channel: grpc.Channel) -> None:
        for method in _SERVICE.methods:
            request, reply = _messages(method)
            call = getattr(channel, _arity(method))(
                f"/{_SERVICE.full_name}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            setattr(self, method.name, call)


def add_learner(calls: object, server: grpc.Server) -> None:
    """Have a server answer each call with the method of its name of `calls`."""
    handlers = {}
    for method in _SERVICE.methods:
        request, reply = _messages(method)
        handlers[method.name] = getattr(grpc, f"{_arity(method)}_rpc_method_handler")(
            getattr(calls, method.name),
            request_deserializer=request.FromString,
            response_serializer=reply.SerializeToString,
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))


def _messages(method: Any) -> tuple[Any, Any]:
    return getattr(learner_pb2, method.input_type.name), getattr(learner_pb2, method.output_type.name)


def _arity(method: Any) -> str:
    return "_".join("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
