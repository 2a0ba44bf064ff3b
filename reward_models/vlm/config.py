"""Settings of the large reward models.

A model is either in this process (`weights`) or on a server (`server`).
"""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from reward_models.vlm.chat import ImageFormat

LOOPBACK = ("localhost", "127.0.0.1", "::1")
Question = Literal["contrastive", "progress", "completion"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WeightsSettings(_Settings):
    """Settings of a checkpoint of transformers that is loaded into this process."""

    model: str = Field(min_length=1, description="folder of a checkpoint, or hub id")
    device: str | None = Field(None, min_length=1, description="as torch names it; None: cuda where there is one")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="auto: as it was saved")
    batch: int = Field(8, ge=1, le=256, description="prompts in one pass")
    local_files_only: bool = Field(True, description="false: fetch from the hub what is not on the disk")
    trust_remote_code: bool = Field(False, description="true: run the code that comes with the checkpoint")


class ServerSettings(_Settings):
    """Settings of a model on an OpenAI-compatible server."""

    url: str = Field(description="up to and with /v1")
    model: str = Field(min_length=1, description="as the server calls it")
    revision: str = Field("", description="of its weights; change it with them, since scores are kept under it")
    timeout_s: float = Field(30.0, gt=0.0, le=600.0, description="of one request")
    concurrency: int = Field(8, ge=1, le=256, description="requests at a time")
    token_env: str | None = Field(None, min_length=1, description="environment variable with the bearer token")
    ca_file: str | None = Field(None, min_length=1, description="certificates to trust, PEM; None: the system's")
    image_format: ImageFormat = Field("png", description="png is exact, jpeg is smaller")

    @field_validator("url")
    @classmethod
    def _plain_address(cls, url: str) -> str:
        parts = urlsplit(url)
        try:
            proper = parts.port != 0  # a port that is no number says so when it is read
        except ValueError:
            proper = False
        if not proper or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"url is {url!r}, must be like http://127.0.0.1:8000/v1")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url has a user or password in it, must have none; name a token with token_env")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _token_in_the_clear(self) -> Self:
        parts = urlsplit(self.url)
        if self.token_env and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError(f"url is {self.url}, must be https where a token is sent beyond this machine; correct it")
        return self


class FamilySettings(_Settings):
    """Settings that every family that is asked in words has."""

    weights: WeightsSettings | None = None
    server: ServerSettings | None = None
    accept_license: str | None = Field(None, description="needed, in so many words, for non-commercial weights")
    prompt_file: str | None = Field(None, min_length=1, description="wording that replaces ours")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.weights is None) == (self.server is None):
            raise ValueError(
                "one of weights (in this process) and server (elsewhere) must be given, and only one; add or remove one"
            )
        return self


class VlacSettings(FamilySettings):
    """Settings of VLAC: pairs and done, from one camera."""

    view: str = Field("front", min_length=1)
    references: int = Field(6, ge=2, le=11, description="images shown of a reference, if the task has one")
    soft: bool = Field(False, description="expected digits instead of the most probable; needs log-probabilities")
    think: bool = Field(False, description="let it reason first; it then says progress as well")


class GrmSettings(FamilySettings):
    """Settings of Robo-Dopamine's GRM: hops, from one to three cameras."""

    views: tuple[str, ...] = Field(("front",), min_length=1, max_length=3, description="front, left, right wrist")
    max_pixels: int = Field(76_800, ge=12_544, le=2_000_000, description="of an image")
    fusion: Literal["gated", "mean"] = Field(
        "gated",
        description="how its three answers about a frame become one: gated stops where they contradict each other, "
        "mean does not and is nearer to the truth where each errs by itself",
    )


class LrmSettings(FamilySettings):
    """Settings of Large Reward Models: one adapter a question, each optional."""

    view: str = Field("front", min_length=1)
    adapters: dict[Question, str] = Field(
        min_length=1, description="folder or hub id of the adapter; on a server, the name it is served under"
    )
    max_pixels: int = Field(262_144, ge=12_544, le=2_000_000, description="of an image")


class RoboRewardSettings(FamilySettings):
    """Settings of RoboReward: progress of a clip in five steps."""

    view: str = Field("front", min_length=1)
    frames: int = Field(16, ge=1, le=64, description="images shown of a clip, evenly spread, the last one included")
    max_pixels: int = Field(76_800, ge=12_544, le=2_000_000, description="of an image")


class YesNoSettings(FamilySettings):
    """Settings of any vision-language model that is asked whether the task is done, yes or no."""

    view: str = Field("front", min_length=1)
    max_pixels: int = Field(262_144, ge=12_544, le=2_000_000, description="of an image")


class ClipSettings(_Settings):
    """Settings of CLIP with goal-baseline projection; in this process only."""

    weights: WeightsSettings
    view: str = Field("front", min_length=1)
    alpha: float = Field(0.5, ge=0.0, le=1.0, description="0: plain cosine; 1: only what baseline and goal differ in")
    baseline: str = Field("", description="the scene without the task, like 'a robot arm over a table'; a run needs it")
    low: float = Field(0.0, ge=-1.0, le=1.0, description="score that is progress 0; measure it on a demonstration")
    high: float = Field(1.0, ge=-1.0, le=1.0, description="score that is progress 1")
    accept_license: str | None = Field(None, description="needed, in so many words, for non-commercial weights")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low}, must be below high, {self.high}; swap or correct them")
        return self
