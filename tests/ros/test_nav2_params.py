"""launch/nav2_params.yaml: known names, the contract's limits, no behaviour that it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pixelgait.robot.bundle import load_bundle

FILE = Path(__file__).resolve().parents[2] / "launch" / "nav2_params.yaml"
# Parameters of Nav2's pages "Controller Server", "Regulated Pure Pursuit", "Simple Progress
# Checker", "Simple Goal Checker", "Velocity Smoother" and "Behavior Server" that the file uses.
KNOWN = {
    "controller_server": """controller_frequency min_x_velocity_threshold min_y_velocity_threshold
        min_theta_velocity_threshold failure_tolerance odom_topic enable_stamped_cmd_vel
        progress_checker_plugins goal_checker_plugins controller_plugins progress_checker
        goal_checker FollowPath""",
    "FollowPath": """plugin desired_linear_vel lookahead_dist min_approach_linear_velocity
        approach_velocity_scaling_dist use_velocity_scaled_lookahead_dist use_collision_detection
        max_allowed_time_to_collision_up_to_carrot use_regulated_linear_velocity_scaling
        regulated_linear_scaling_min_radius regulated_linear_scaling_min_speed
        use_rotate_to_heading rotate_to_heading_min_angle rotate_to_heading_angular_vel
        max_angular_accel allow_reversing""",
    "progress_checker": "plugin required_movement_radius movement_time_allowance",
    "goal_checker": "plugin xy_goal_tolerance yaw_goal_tolerance stateful",
    "velocity_smoother": """smoothing_frequency scale_velocities feedback max_velocity min_velocity
        max_accel max_decel deadband_velocity velocity_timeout odom_topic
        enable_stamped_cmd_vel""",
    "behavior_server": """local_costmap_topic global_costmap_topic local_footprint_topic
        global_footprint_topic cycle_frequency behavior_plugins spin wait local_frame global_frame
        robot_base_frame transform_tolerance simulate_ahead_time max_rotational_vel
        min_rotational_vel rotational_acc_lim enable_stamped_cmd_vel""",
}


def parameters() -> dict[str, dict[str, Any]]:
    """Parameters of each server, and of the plugins of the controller server."""
    servers = {n: s["ros__parameters"] for n, s in yaml.safe_load(FILE.read_text()).items()}
    plugins = ("FollowPath", "progress_checker", "goal_checker")
    return servers | {name: servers["controller_server"][name] for name in plugins}


def test_nav2_parameters_have_names_that_nav2_documents() -> None:
    found = parameters()
    assert found.keys() == KNOWN.keys()
    for server, names in KNOWN.items():
        assert found[server].keys() <= set(names.split()), server


def test_nav2_limits_are_the_contracts() -> None:
    latent = load_bundle("walk").contract["high_level"]["latent"]
    (least, most), (right, left) = latent["speed_m_per_s"], latent["yaw_rate_rad_per_s"]
    found = parameters()
    smoother, path, behaviours = (
        found[name] for name in ("velocity_smoother", "FollowPath", "behavior_server")
    )
    assert smoother["max_velocity"] == [most, 0.0, left]
    assert smoother["min_velocity"] == [least, 0.0, right]
    assert path["desired_linear_vel"] <= most
    assert max(path["rotate_to_heading_angular_vel"], behaviours["max_rotational_vel"]) <= left
    assert behaviours["behavior_plugins"] == ["spin", "wait"]
    assert not path["allow_reversing"]
    assert smoother["velocity_timeout"] < 0.5  # cmd_vel_timeout_s
