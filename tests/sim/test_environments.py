"""Gymnasium environments: camera, task, body and rendering options, and invalid ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import pixelgait.sim.envs
from pixelgait.robot.errors import UserError
from pixelgait.robot.rotation import heading
from pixelgait.robot.spec import ROBOTS

PREFIX = f"{pixelgait.sim.envs.__name__}:PixelGait/"
AHEAD = np.array((1.0, 0.0))


def made(name: str, **options: object) -> gymnasium.Env:
    return gymnasium.make(f"{PREFIX}{name}-v0", **options)


def test_image_size_and_field_of_view_can_be_chosen() -> None:
    narrow, wide = (
        made("ObstacleCourse", image_size=(36, 48), field_of_view_rad=angle) for angle in (0.4, 1.4)
    )
    near, far = (env.reset(seed=3)[0]["image"] for env in (narrow, wide))
    assert near.shape == far.shape == narrow.observation_space["image"].shape == (36, 48, 3)
    assert not np.array_equal(near, far)
    blind = made("ObstacleCourse", image_size=None)
    assert list(blind.reset(seed=3)[0]) == list(blind.observation_space) == ["proprioception"]
    for env in (narrow, wide, blind):
        env.close()


@pytest.mark.parametrize("robot", ["go2", "mini_cheetah"])
def test_every_robot_trots_under_zero_actions(robot: str) -> None:
    env = made("Walk", robot=robot, image_size=None)
    env.reset(seed=0)
    for _ in range(100):
        _, _, terminated, *_ = env.step(np.zeros(19))
        assert not terminated
    angles = env.unwrapped.reading.joint_angles
    assert np.all(np.abs(angles - ROBOTS[robot].default_pose_rad) < 1.0)
    env.close()
    steered = made("Steer", robot=robot)  # on the low level of its own that is shipped
    steered.reset(seed=0)
    steered.step(np.array((1.0, 0.0)))
    steered.close()
    with pytest.raises(UserError, match="low_level 'walk' is for robot a1"):
        made("Steer", robot=robot, low_level="walk")


def test_a_skipped_frame_repeats_the_action() -> None:
    once, thrice = made("Walk"), made("Walk", frame_skip=3)
    rng = np.random.default_rng(0)
    for env in (once, thrice):
        env.reset(seed=5)
    for _ in range(10):
        action = 0.3 * rng.uniform(-1.0, 1.0, 19)
        rewards = [once.step(action) for _ in range(3)]
        observation, reward, *_ = thrice.step(action)
        assert reward == pytest.approx(sum(row[1] for row in rewards))
        np.testing.assert_array_equal(
            observation["proprioception"], rewards[-1][0]["proprioception"]
        )
    once.close()
    thrice.close()


@pytest.mark.parametrize(
    ("name", "options", "action", "seconds"),
    [
        ("Follow", {}, np.zeros(19), 10.0),
        ("ObstacleCourse", {"image_size": None, "seconds": 0.6}, np.zeros(19), 0.6),
        ("Steer", {"scene": "flat", "body": "glide", "image_size": (8, 8)}, AHEAD, 60.0),
        ("Steer", {"seconds": 0.6}, AHEAD, 0.6),
        ("Follow", {"seconds": 0.35}, np.zeros(19), 0.35),  # ends within an action
        ("Steer", {"seconds": 0.35}, AHEAD, 0.35),
    ],
)
@pytest.mark.parametrize("frame_skip", [1, 20, None])
def test_the_length_of_an_episode_does_not_depend_on_frame_skip(
    name: str,
    options: dict[str, object],
    action: np.ndarray,
    seconds: float,
    frame_skip: int | None,
) -> None:
    env = made(name, **options, **({"frame_skip": frame_skip} if frame_skip else {}))
    env.reset(seed=0)
    actions, over = 0, False
    while not over:
        _, _, terminated, over, _ = env.step(action)
        assert not terminated
        actions += 1
    assert 0.01 * env.unwrapped.steps == pytest.approx(seconds)
    assert actions == -(-env.unwrapped.steps // env.unwrapped.frame_skip)
    env.close()


@pytest.mark.parametrize("frame_skip", [1, 2, 3])
def test_a_30_hz_camera_has_a_frame_every_third_step(frame_skip: int) -> None:
    """Where an action ends between two frames, the observation has the newest one."""
    every, env = made("ObstacleCourse"), made("ObstacleCourse", frame_skip=frame_skip)
    action, frames = 0.3 * np.ones(19), [every.reset(seed=5)[0]["image"]]
    frames += [every.step(action)[0]["image"] for _ in range(30)]
    env.reset(seed=5)
    for step in range(frame_skip, 30, frame_skip):
        observation = env.step(action)[0]["image"]
        np.testing.assert_array_equal(observation, frames[step - step % 3])
    assert len({frame.tobytes() for frame in frames}) > 8
    every.close()
    env.close()


@pytest.mark.parametrize(("name", "action"), [("Steer", -AHEAD), ("ObstacleCourse", np.zeros(19))])
def test_a_robot_that_stands_still_is_truncated_not_terminated(
    name: str, action: np.ndarray
) -> None:
    """A termination would teach a value that depends on a clock the agent does not observe."""
    env = made(name, frame_skip=20, image_size=(8, 8))
    env.reset(seed=0)
    for _ in range(40):
        *_, terminated, truncated, _ = env.step(action)
        assert not terminated
        if truncated:
            break
    assert truncated
    assert 600 < env.unwrapped.steps < 650
    env.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [("Walk", {}), ("ObstacleCourse", {"camera": "rgbd"}), ("Steer", {"body": "glide"})],
)
def test_stable_baselines3_trains_its_own_cnn_on_the_images(
    name: str, options: dict[str, object]
) -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import NatureCNN

    env = made(name, **options)
    model = PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0)
    extractor = model.policy.features_extractor.extractors["image"]
    assert isinstance(extractor, NatureCNN)
    before = extractor.cnn[0].weight.detach().clone()
    model.learn(16)
    assert not np.array_equal(before, extractor.cnn[0].weight.detach())
    env.close()


def test_velocity_commands_change_every_second() -> None:
    env = made("Follow")
    commands = [env.reset(seed=2)[0]["command"]]
    for _ in range(250):
        commands.append(env.step(np.zeros(19))[0]["command"])
    changes = [i for i in range(250) if not np.array_equal(commands[i], commands[i + 1])]
    assert [i + 1 for i in changes] == [100, 200]
    env.close()


@pytest.mark.parametrize("body", ["glide", "pybullet", "mujoco"])
def test_the_agent_steers_every_body(body: str) -> None:
    env = made("Steer", scene="flat", body=body, camera="depth")
    observation, _ = env.reset(seed=1)
    assert observation["image"].shape == (36, 36, 1)
    returned = sum(float(env.step(AHEAD)[1]) for _ in range(20))  # 4 s
    assert 0.8 < returned < 2.4
    env.close()


@pytest.mark.parametrize("body", ["glide", "pybullet"])
def test_rgb_array_renders_the_robot_from_behind(body: str) -> None:
    env = made("Steer", body=body, render_mode="rgb_array")
    env.reset(seed=1)
    first = env.render()
    assert first.shape == (320, 480, 3)
    assert env.metadata["render_fps"] == 5  # an action takes 0.2 s
    for _ in range(5):
        env.step(AHEAD)
    assert not np.array_equal(first, env.render())
    env.close()


@pytest.mark.parametrize("body", ["glide", "pybullet"])
@pytest.mark.parametrize("randomise", [False, True])
def test_render_mode_camera_shows_the_view_of_the_camera_in_colour(
    body: str, randomise: bool
) -> None:
    options = {"body": body, "render_mode": "camera", "randomise": randomise}
    env, colour = made("Steer", camera="depth", **options), made("Steer", camera="rgb", **options)
    env.reset(seed=1)
    observation, _ = colour.reset(seed=1)
    assert env.render().shape == colour.render().shape == (36, 36, 3)
    if not randomise:
        np.testing.assert_array_equal(colour.render(), observation["image"])
    env.step(AHEAD)
    assert env.render().std() > 5.0
    env.close()
    colour.close()


def test_rendering_shows_the_true_joint_angles_despite_sensor_faults() -> None:
    healthy, faulty = (
        made("Walk", frame_skip=1, render_mode="rgb_array", faults=faults)
        for faults in ((), ("joints-degrees:at=0.01",))
    )
    for env in (healthy, faulty):
        env.reset(seed=1)
        env.step(np.zeros(19))
    np.testing.assert_array_equal(healthy.render(), faulty.render())
    healthy.close()
    faulty.close()


def test_joint_angles_in_degrees_lie_within_the_observation_space() -> None:
    env = made("Walk", image_size=None, faults=("joints-degrees:at=0",))
    observation, _ = env.reset(seed=1)
    assert np.abs(observation["proprioception"]).max() > 100.0
    assert env.observation_space.contains(observation)
    env.close()
    healthy = made("Walk", image_size=None)
    assert healthy.observation_space["proprioception"].high.max() == 100.0
    healthy.close()


def test_passing_the_goal_off_the_ground_is_no_success() -> None:
    env = made("Steer", body="glide", frame_skip=1).unwrapped
    for aside, success in ((0.0, True), (10.0, False)):
        env.reset(seed=1)
        env.body.robot.x, env.body.robot.y = env.body.scene.goal_m - 0.001, aside
        env.body.robot.speed, env.body.robot.yaw = 0.6, 0.0
        _, _, terminated, _, info = env.step(AHEAD)
        assert terminated
        assert info["is_success"] is success
    env.close()


def test_the_goal_observation_is_distance_and_bearing_of_the_goal_position() -> None:
    for name, body in (("Steer", "glide"), ("Steer", "pybullet"), ("ObstacleCourse", "pybullet")):
        env = made(name, scene="rooms", body=body, goal=True)
        observation, _ = env.reset(seed=4)
        robot, place = env.unwrapped.body, env.unwrapped.body.scene.goal_position
        start = robot.layout.start
        assert observation["goal"][0] == pytest.approx(
            np.hypot(place[0] - start.x, place[1] - start.y), 1e-3
        )
        for _ in range(5):
            observation, *_ = env.step(np.zeros(env.action_space.shape))
        assert env.observation_space.contains(observation)
        (x, y, _), orientation = robot.pose()
        bearing = observation["goal"][1] + heading(orientation)
        there = np.array((x, y)) + observation["goal"][0] * np.array(
            (np.cos(bearing), np.sin(bearing))
        )
        np.testing.assert_allclose(there, place, atol=1e-3)
        env.close()


def test_turning_towards_the_goal_bearing_reduces_it() -> None:
    env = made("Steer", scene="rooms", body="glide", goal=True)
    observation, _ = env.reset(seed=8)
    before = abs(float(observation["goal"][1]))
    for _ in range(20):
        observation, *_ = env.step(np.array((-1.0, np.sign(observation["goal"][1]))))
    assert before > 0.5 > abs(float(observation["goal"][1]))
    env.close()


NO_IMAGE = "image_size is None: appearance, camera and field_of_view_rad have no effect"


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("Walk", {"difficulty": 0.5}, "difficulty has no effect with scene 'flat'"),
        ("Walk", {"goal": True}, "goal: scene 'flat' has no goal position, as rooms has"),
        ("Steer", {"goal": True}, "goal: scene 'obstacle-course' has no goal position"),
        *(
            ("Walk", {"field_of_view_rad": angle}, f"field_of_view_rad is {angle}, expected")
            for angle in (0.0, float("nan"), 4.0)
        ),
        *(
            (
                "Walk",
                {"image_size": size},
                f"image_size is {size!r}, expected (height, width) from 1 to 1024",
            )
            for size in ((0, 0), (32,), (1.5, 2), "ab", 32, (20000, 20000), (32, np.nan))
        ),
        *(
            ("Steer", {"frame_skip": skip}, f"frame_skip is {skip!r}, expected an integer 1 to")
            for skip in (0, 2.5, float("nan"), 6001)
        ),
        *(
            ("Walk", {"seconds": seconds}, f"seconds is {seconds}, expected 0.01 to 3600")
            for seconds in (0.0, float("nan"), float("inf"))
        ),
        ("Walk", {"appearance": "dark"}, "unknown appearance 'dark', choose from nominal, train"),
        ("Walk", {"faults": (3,)}, "--faults: 3 is not a fault, expected SENSOR-KIND"),
        ("Steer", {"difficulty": float("nan")}, "difficulty"),
        ("Steer", {"difficulty": "hard"}, "difficulty is 'hard', expected 0 to 1"),
        ("Steer", {"low_level": ""}, "bundle '': "),
        ("Walk", {"camera": "grey"}, "unknown camera 'grey', choose from rgb, depth, rgbd"),
        ("Walk", {"render_mode": "top"}, "unknown render_mode 'top', choose from rgb_array"),
        ("Walk", {"task": "dance"}, "unknown task 'dance', choose from forward, follow"),
        ("Walk", {"body": "glide"}, "body 'glide' has no legs, choose from pybullet, mujoco"),
        ("Walk", {"image_size": None, "appearance": "train"}, NO_IMAGE),
        ("Walk", {"image_size": None, "field_of_view_rad": 1.0}, NO_IMAGE),
        ("Follow", {"camera": "depth"}, NO_IMAGE),
        (
            "Follow",
            {"faults": ("camera-black:at=1",)},
            "--faults camera-black has no effect: the agent uses no images",
        ),
        ("Steer", {"image_size": None}, "image_size is None, expected (height, width)"),
        ("Steer", {"body": "glide", "faults": ("mixed",)}, "faults have no effect with body"),
        ("Steer", {"body": "glide", "low_level": "walk"}, "low_level 'walk' has no effect: body"),
    ],
)
def test_invalid_options_raise_a_user_error(
    name: str, options: dict[str, object], expected: str
) -> None:
    with pytest.raises(UserError) as refused:
        made(name, **options)
    assert str(refused.value).startswith(expected)


@pytest.mark.parametrize(("name", "body"), [("Walk", "pybullet"), ("Steer", "glide")])
def test_actions_of_another_shape_or_with_nan_raise_a_user_error(name: str, body: str) -> None:
    env = made(name, body=body).unwrapped
    env.reset(seed=1)
    (size,) = env.action_space.shape
    for wrong in (np.zeros(size + 1), np.zeros((1, size)), 0.5, None):
        with pytest.raises(UserError, match=rf"action has shape .*, expected \({size},\)"):
            env.step(wrong)
    with pytest.raises(UserError, match="action contains nan"):
        env.step([np.nan] * size)
    assert env.steps == 0
    env.close()


def test_gymnasium_runs_environments_in_processes() -> None:
    """AsyncVectorEnv pickles the options and shares the observations: bit-equal to in-process."""
    options = {"body": "glide", "scene": "rooms", "goal": True, "seconds": 0.4}
    apart, together = (
        gymnasium.make_vec(f"{PREFIX}Steer-v0", 2, vectorization_mode=mode, **options)
        for mode in ("async", "sync")
    )
    np.testing.assert_equal(apart.reset(seed=5), together.reset(seed=5))
    for _ in range(4):
        actions = np.full((2, 2), 0.5)
        np.testing.assert_equal(apart.step(actions), together.step(actions))
    apart.close()
    together.close()
