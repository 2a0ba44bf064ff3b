"""The Hugging Face Hub, through its own client; its failures become sentences that say what to do."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Literal

from robot_stack.types.errors import ConfigError, TransportError

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

    Raises:
        ConfigError: If the name cannot be one of a repository.
        TransportError: If the Hub refuses or cannot be reached.
    """
    with _in_sentences(hub, repository):
        api = hub.HfApi()
        api.create_repo(repository, repo_type=kind, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repository, repo_type=kind, folder_path=folder, commit_message="Pushed by robot-stack"
        )
    return str(done.commit_url)


def download(
    hub: ModuleType, repository: str, kind: Kind, into: Path, *, revision: str, only: Sequence[str] | None
) -> None:
    """Download a repository into a folder; of its files only those named, if any are.

    Raises:
        ConfigError: If the name cannot be one of a repository.
        TransportError: If there is none, the Hub refuses or cannot be reached.
    """
    with _in_sentences(hub, repository):
        hub.snapshot_download(
            repository,
            repo_type=kind,
            revision=revision or None,
            local_dir=into,
            allow_patterns=None if only is None else list(only),
        )


@contextmanager
def _in_sentences(hub: ModuleType, repository: str) -> Iterator[None]:
    errors = importlib.import_module(f"{hub.__name__}.errors")
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
    except OSError as error:  # all that its transport raises: no route, no name, a broken connection, offline mode
        raise TransportError(
            f"Hub cannot be reached for {repository} ({_first(error)}), must be; with --folder nothing is sent"
        ) from error


def _first(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
