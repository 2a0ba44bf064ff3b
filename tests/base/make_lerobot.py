"""Makes tiny checkpoints with the real lerobot package: run by the Python that has it.

    PYTHON make_lerobot.py FOLDER TYPE [TYPE ...]

A checkpoint of each type is written to FOLDER/TYPE: a state of 7, one camera of 96 x 96, an action of 4. That of
`diffusion_of_now` wants no history. TD-MPC works with one name of the camera alone.
"""

import sys
from pathlib import Path

import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

CAMERA = "observation.images.top"
SMALL = {
    "act": {
        "chunk_size": 12, "n_action_steps": 12, "dim_model": 32, "n_heads": 2, "dim_feedforward": 32,
        "n_encoder_layers": 1, "n_vae_encoder_layers": 1, "latent_dim": 8, "pretrained_backbone_weights": None,
    },
    "diffusion": {
        "horizon": 16, "n_action_steps": 8, "down_dims": (16, 32), "diffusion_step_embed_dim": 16,
        "num_inference_steps": 2, "noise_scheduler_type": "DDIM", "crop_shape": None, "use_group_norm": True,
        "pretrained_backbone_weights": None,
    },
    "vqbet": {
        "n_vqvae_training_steps": 1, "gpt_input_dim": 16, "gpt_output_dim": 16, "gpt_n_layer": 1, "gpt_n_head": 2,
        "gpt_hidden_dim": 16, "pretrained_backbone_weights": None, "use_group_norm": True,
    },
    "tdmpc": {
        "latent_dim": 8, "mlp_dim": 16, "q_ensemble_size": 2, "n_gaussian_samples": 8, "n_pi_samples": 2, "n_elites": 4,
    },
}  # fmt: skip
SMALL["diffusion_of_now"] = SMALL["diffusion"] | {"n_obs_steps": 1}


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    for name in names:
        kind = name.partition("_")[0]
        camera = "observation.image" if kind == "tdmpc" else CAMERA
        config = make_policy_config(
            kind,
            input_features={
                "observation.state": PolicyFeature(FeatureType.STATE, (7,)),
                camera: PolicyFeature(FeatureType.VISUAL, (3, 96, 96)),
            },
            output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
            device="cpu",
            **SMALL[name],
        )
        policy = get_policy_class(kind)(config)
        seen = {"mean": torch.zeros(7), "std": torch.ones(7), "min": -torch.ones(7), "max": torch.ones(7)}
        done = {"mean": torch.zeros(4), "std": torch.full((4,), 0.2), "min": -torch.ones(4), "max": torch.ones(4)}
        pixel = {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.3)}
        pixel |= {"min": torch.zeros(3, 1, 1), "max": torch.ones(3, 1, 1)}
        statistics = {"observation.state": seen, "action": done, camera: pixel}
        before, after = make_pre_post_processors(config, dataset_stats=statistics)
        for part in (policy, before, after):
            part.save_pretrained(folder / name)


if __name__ == "__main__":
    main()
