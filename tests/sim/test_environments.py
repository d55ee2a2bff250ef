"""Gymnasium: what an agent may choose of its eyes, task and legs, and what one sees of it."""

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


def test_an_agent_chooses_its_eyes() -> None:
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
def test_an_agent_trots_on_the_robot_it_asks_for(robot: str) -> None:
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
    with pytest.raises(UserError, match="low_level 'walk' is of a1"):
        made("Steer", robot=robot, low_level="walk")


def test_a_skipped_frame_is_the_same_action_again() -> None:
    once, thrice = made("Walk"), made("Walk", frame_skip=3)
    rng = np.random.default_rng(0)
    for env in (once, thrice):
        env.reset(seed=5)
    for _ in range(10):
        action = 0.3 * rng.uniform(-1.0, 1.0, 19)
        rewards = [once.step(action) for _ in range(3)]
        seen, reward, *_ = thrice.step(action)
        assert reward == pytest.approx(sum(row[1] for row in rewards))
        np.testing.assert_array_equal(seen["proprioception"], rewards[-1][0]["proprioception"])
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
def test_an_episode_is_as_long_however_long_an_action_is(
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
def test_a_camera_of_30_hz_has_a_frame_every_third_step(frame_skip: int) -> None:
    """Also where an action ends between two of them: the newest is seen, not the one before."""
    every, env = made("ObstacleCourse"), made("ObstacleCourse", frame_skip=frame_skip)
    action, frames = 0.3 * np.ones(19), [every.reset(seed=5)[0]["image"]]
    frames += [every.step(action)[0]["image"] for _ in range(30)]
    env.reset(seed=5)
    for step in range(frame_skip, 30, frame_skip):
        seen = env.step(action)[0]["image"]
        np.testing.assert_array_equal(seen, frames[step - step % 3])
    assert len({frame.tobytes() for frame in frames}) > 8
    every.close()
    env.close()


@pytest.mark.parametrize(("name", "action"), [("Steer", -AHEAD), ("ObstacleCourse", np.zeros(19))])
def test_who_stands_is_cut_off_and_has_not_failed(name: str, action: np.ndarray) -> None:
    """What is worth nothing must not be learned from a clock that nobody sees."""
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
def test_stable_baselines3_learns_by_its_own_eyes(name: str, options: dict[str, object]) -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import NatureCNN

    env = made(name, **options)
    model = PPO("MultiInputPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0)
    eyes = model.policy.features_extractor.extractors["image"]
    assert isinstance(eyes, NatureCNN)
    before = eyes.cnn[0].weight.detach().clone()
    model.learn(16)
    assert not np.array_equal(before, eyes.cnn[0].weight.detach())
    env.close()


def test_commands_to_follow_change_every_second() -> None:
    env = made("Follow")
    commands = [env.reset(seed=2)[0]["command"]]
    for _ in range(250):
        commands.append(env.step(np.zeros(19))[0]["command"])
    changes = [i for i in range(250) if not np.array_equal(commands[i], commands[i + 1])]
    assert [i + 1 for i in changes] == [100, 200]
    env.close()


@pytest.mark.parametrize("body", ["glide", "pybullet", "mujoco"])
def test_an_agent_steers_whatever_carries_it(body: str) -> None:
    env = made("Steer", scene="flat", body=body, camera="depth")
    seen, _ = env.reset(seed=1)
    assert seen["image"].shape == (36, 36, 1)
    returned = sum(float(env.step(AHEAD)[1]) for _ in range(20))  # 4 s
    assert 0.8 < returned < 2.4
    env.close()


@pytest.mark.parametrize("body", ["glide", "pybullet"])
def test_one_sees_the_robot_from_behind(body: str) -> None:
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
def test_one_sees_in_colour_what_its_camera_sees(body: str, randomise: bool) -> None:
    options = {"body": body, "render_mode": "camera", "randomise": randomise}
    env, colour = made("Steer", camera="depth", **options), made("Steer", camera="rgb", **options)
    env.reset(seed=1)
    seen, _ = colour.reset(seed=1)
    assert env.render().shape == colour.render().shape == (36, 36, 3)
    if not randomise:
        np.testing.assert_array_equal(colour.render(), seen["image"])
    env.step(AHEAD)
    assert env.render().std() > 5.0
    env.close()
    colour.close()


def test_one_sees_where_the_joints_are_whatever_sensors_say() -> None:
    well, ill = (
        made("Walk", frame_skip=1, render_mode="rgb_array", faults=faults)
        for faults in ((), ("joints-degrees:at=0.01",))
    )
    for env in (well, ill):
        env.reset(seed=1)
        env.step(np.zeros(19))
    np.testing.assert_array_equal(well.render(), ill.render())
    well.close()
    ill.close()


def test_what_joints_say_in_degrees_is_within_the_observation_space() -> None:
    env = made("Walk", image_size=None, faults=("joints-degrees:at=0",))
    seen, _ = env.reset(seed=1)
    assert np.abs(seen["proprioception"]).max() > 100.0
    assert env.observation_space.contains(seen)
    env.close()
    well = made("Walk", image_size=None)
    assert well.observation_space["proprioception"].high.max() == 100.0
    well.close()


def test_who_is_past_the_goal_and_off_the_ground_has_not_succeeded() -> None:
    env = made("Steer", body="glide", frame_skip=1).unwrapped
    for aside, success in ((0.0, True), (10.0, False)):
        env.reset(seed=1)
        env.body.state.x, env.body.state.y = env.body.scene.goal_m - 0.001, aside
        env.body.state.speed, env.body.state.yaw = 0.6, 0.0
        _, _, terminated, _, info = env.step(AHEAD)
        assert terminated
        assert info["is_success"] is success
    env.close()


def test_an_agent_is_told_where_to_go_as_a_high_level_is() -> None:
    for name, body in (("Steer", "glide"), ("Steer", "pybullet"), ("ObstacleCourse", "pybullet")):
        env = made(name, scene="rooms", body=body, goal=True)
        seen, _ = env.reset(seed=4)
        robot, place = env.unwrapped.body, env.unwrapped.body.scene.goal_position
        start = robot.layout.start
        assert seen["goal"][0] == pytest.approx(
            np.hypot(place[0] - start.x, place[1] - start.y), 1e-3
        )
        for _ in range(5):
            seen, *_ = env.step(np.zeros(env.action_space.shape))
        assert env.observation_space.contains(seen)
        (x, y, _), orientation = robot.pose()
        bearing = seen["goal"][1] + heading(orientation)
        there = np.array((x, y)) + seen["goal"][0] * np.array((np.cos(bearing), np.sin(bearing)))
        np.testing.assert_allclose(there, place, atol=1e-3)
        env.close()


def test_a_policy_reads_the_goal_off_the_observation() -> None:
    """Turning towards the bearing brings the robot nearer to it."""
    env = made("Steer", scene="rooms", body="glide", goal=True)
    seen, _ = env.reset(seed=8)
    before = abs(float(seen["goal"][1]))
    for _ in range(20):
        seen, *_ = env.step(np.array((-1.0, np.sign(seen["goal"][1]))))
    assert before > 0.5 > abs(float(seen["goal"][1]))
    env.close()


APPEARANCES = "image_size is None: there is no image for appearance"
EYES = "image_size is None: there is no image for camera or field_of_view_rad"


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("Walk", {"difficulty": 0.5}, "difficulty is nothing to scene 'flat': it has but one"),
        ("Walk", {"goal": True}, "goal: scene 'flat' tells no destination, as rooms does"),
        ("Steer", {"goal": True}, "goal: scene 'obstacle-course' tells no destination"),
        *(
            (
                "Walk",
                {"field_of_view_rad": angle},
                f"field_of_view_rad is {angle}, needs more than 0",
            )
            for angle in (0.0, float("nan"), 4.0)
        ),
        *(
            (
                "Walk",
                {"image_size": size},
                f"image_size is {size!r}, needs (height, width), whole numbers from 1 to 1024",
            )
            for size in ((0, 0), (32,), (1.5, 2), "ab", 32, (20000, 20000), (32, np.nan))
        ),
        *(
            ("Steer", {"frame_skip": skip}, f"frame_skip is {skip!r}, needs a whole number from 1")
            for skip in (0, 2.5, float("nan"), "2", 6001)
        ),
        *(
            ("Walk", {"seconds": seconds}, f"seconds is {seconds}, expected 0.01 to 3600")
            for seconds in (0.0, float("nan"), float("inf"))
        ),
        ("Walk", {"seconds": "a"}, "seconds is 'a', expected 0.01 to 3600"),
        ("Walk", {"field_of_view_rad": "a"}, "field_of_view_rad is 'a', needs more than 0"),
        (
            "Walk",
            {"appearance": "dark"},
            "unknown appearance 'dark', choose from nominal, train",
        ),
        ("Walk", {"faults": (3,)}, "--faults: 3 is no fault, expected SENSOR-KIND"),
        ("Steer", {"difficulty": float("nan")}, "difficulty"),
        ("Steer", {"difficulty": "hard"}, "difficulty is 'hard', expected 0 to 1"),
        *(
            ("Walk", {name: value}, f"{name} is {value!r}, needs a name")
            for name, value in (("scene", 3), ("robot", []), ("body", None), ("camera", []))
        ),
        *(
            ("Walk", {"faults": faults}, f"faults is {faults!r}, needs a tuple, as in ('mixed',)")
            for faults in (None, "mixed")
        ),
        ("Walk", {"randomise": "no"}, "randomise is 'no', expected True or False"),
        ("Steer", {"scene": "rooms", "goal": "no"}, "goal is 'no', expected True or False"),
        ("Steer", {"low_level": ""}, "bundle '': "),
        ("Walk", {"camera": "grey"}, "unknown camera 'grey', choose from rgb, depth, rgbd"),
        (
            "Walk",
            {"render_mode": "top"},
            "unknown render_mode 'top', choose from rgb_array, camera",
        ),
        ("Walk", {"task": "dance"}, "unknown task 'dance', choose from forward, follow"),
        ("Walk", {"body": "glide"}, "body 'glide' has no legs for an agent to move, choose from"),
        ("Walk", {"image_size": None, "appearance": "training"}, APPEARANCES),
        ("Walk", {"image_size": None, "field_of_view_rad": 1.0}, EYES),
        ("Follow", {"camera": "depth"}, EYES),
        (
            "Follow",
            {"faults": ("camera-black:at=1",)},
            "who has no image does not look: --faults camera-black is nothing to it",
        ),
        ("Steer", {"image_size": None}, "image_size is None: who steers has to see"),
        (
            "Steer",
            {"body": "glide", "faults": ("mixed",)},
            "faults are of sensors that body 'glide'",
        ),
        ("Steer", {"body": "glide", "low_level": "walk"}, "low_level 'walk' moves legs that body"),
    ],
)
def test_what_makes_no_sense_is_refused(
    name: str, options: dict[str, object], expected: str
) -> None:
    with pytest.raises(UserError) as refused:
        made(name, **options)
    assert str(refused.value).startswith(expected)


@pytest.mark.parametrize(("name", "body"), [("Walk", "pybullet"), ("Steer", "glide")])
def test_an_action_of_another_shape_or_of_no_numbers_is_refused(name: str, body: str) -> None:
    env = made(name, body=body).unwrapped
    env.reset(seed=1)
    (size,) = env.action_space.shape
    for wrong in (np.zeros(size + 1), np.zeros((1, size)), 0.5, None):
        with pytest.raises(UserError, match=rf"shape of an action is .*, expected \({size},\)"):
            env.step(wrong)
    with pytest.raises(UserError, match=f"an action is not of {size} numbers: 'ahead'"):
        env.step("ahead")
    for wrong in (np.nan, None):
        with pytest.raises(UserError, match="an action is nan"):
            env.step([wrong] * size)
    assert env.steps == 0
    env.close()
