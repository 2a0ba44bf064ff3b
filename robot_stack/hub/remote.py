"""The Hugging Face Hub, through its own client; its failures become sentences that say what to do."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Literal

from robot_stack.datasets.lerobot import layout
from robot_stack.types.errors import ConfigError, StoreError, TransportError

Kind = Literal["model", "dataset"]


def client() -> ModuleType:
    """Return the package huggingface_hub.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "huggingface_hub is missing, must be installed for push and pull; pip install 'robot-stack[hub]'"
        ) from error


def upload(hub: ModuleType, folder: Path, repository: str, kind: Kind, *, private: bool) -> str:
    """Make the repository if there is none, and upload a folder as one commit; return the commit's address.

    What the repository held before and the folder does not is gone with that commit. A dataset's commit gets the tag of
    its format's version, by which LeRobot loads it, and which an older commit loses.

    Raises:
        ConfigError: If the name cannot be one of a repository, or it is public and must not be.
        TransportError: If the Hub refuses or cannot be reached.
        StoreError: If the disk refuses.
    """
    with _in_sentences(hub, repository):
        api = hub.HfApi()
        api.create_repo(repository, repo_type=kind, private=private, exist_ok=True)
        if private and not api.repo_info(repository, repo_type=kind).private:
            raise ConfigError(
                f"{repository} is there already and public, must be private for --private; change it on the Hub, or "
                "push to another one"
            )
        done = api.upload_folder(
            repo_id=repository,
            repo_type=kind,
            folder_path=folder,
            delete_patterns="*",
            commit_message="Pushed by robot-stack",
        )
        if kind == "dataset":
            with suppress(hub.errors.RevisionNotFoundError):
                api.delete_tag(repository, tag=layout.VERSION, repo_type=kind)
            api.create_tag(repository, tag=layout.VERSION, revision=done.oid, repo_type=kind)
    return str(done.commit_url)


def download(hub: ModuleType, repository: str, kind: Kind, into: Path, *, revision: str, only: Sequence[str]) -> None:
    """Download the files of a repository whose path matches one of some patterns, such as `meta/*.json`.

    Raises:
        ConfigError: If the name cannot be one of a repository.
        TransportError: If there is none, the Hub refuses or cannot be reached.
        StoreError: If the disk refuses.
    """
    with _in_sentences(hub, repository):
        hub.snapshot_download(
            repository,
            repo_type=kind,
            revision=revision or None,
            local_dir=into,
            allow_patterns=list(only),
        )


@contextmanager
def _in_sentences(hub: ModuleType, repository: str) -> Iterator[None]:
    errors = importlib.import_module(f"{hub.__name__}.errors")
    # its HTTP library has had two names; what that raises is the base of the client's own error
    lost = next(base for base in errors.HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")
    try:
        yield
    except errors.HFValidationError as error:
        raise ConfigError(f"repository is {repository!r}, must be OWNER/NAME as on the Hub ({error})") from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise TransportError(
            f"{repository} is not on the Hub or not for you ({_first(error)}); check the name, or log in: hf auth login"
        ) from error
    except errors.HfHubHTTPError as error:
        raise TransportError(f"Hub refuses {repository} ({_first(error)}); log in with: hf auth login") from error
    except (OSError, lost) as error:  # no route, no name, a broken connection, offline mode; or the disk
        if getattr(error, "filename", None) is not None:
            raise StoreError(
                f"disk refuses files of {repository}: {error}; free space or take another folder"
            ) from error
        raise TransportError(
            f"Hub cannot be reached for {repository} ({_first(error)}), must be; with --folder nothing is sent"
        ) from error


def _first(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
