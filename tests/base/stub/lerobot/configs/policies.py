"""A stand-in for the configuration of a checkpoint, with what the server reads of it."""

from types import SimpleNamespace


class PreTrainedConfig:
    @staticmethod
    def from_pretrained(_: str) -> SimpleNamespace:
        action, state, camera = (SimpleNamespace(shape=shape) for shape in ((4,), (7,), (3, 8, 8)))
        return SimpleNamespace(
            type="pi0",
            chunk_size=5,
            max_action_dim=4,
            n_obs_steps=1,
            input_features={"observation.state": state},
            image_features={"observation.images.top": camera},
            action_feature=action,
        )
