"""Only what pyproject.toml cannot say: the files that ROS looks for under the install prefix.

One list serves `pip install .` and `colcon build`.
"""

from glob import glob

from setuptools import Distribution, setup

SHARE = "share/robot_stack"


class PlainDistribution(Distribution):
    """Keeps `requires-python` as text, and gives setuptools 77 and later the licence as the expression that it is.

    colcon reads the metadata back as Python literals.
    """

    def has_data(self):
        """Asked by an editable install, which otherwise leaves out `data_files`."""
        return self.has_data_files()

    def parse_config_files(self, *args, **kwargs):
        self.metadata.license_expression = self.metadata.license
        super().parse_config_files(*args, **kwargs)
        for holder in (self, self.metadata):
            if getattr(holder, "python_requires", None) is not None:
                holder.python_requires = str(holder.python_requires)


setup(
    distclass=PlainDistribution,
    license="Apache-2.0",
    data_files=[
        ("share/ament_index/resource_index/packages", ["ros/resource/robot_stack"]),
        (SHARE, ["package.xml"]),
        (f"{SHARE}/launch", sorted(glob("launch/*.py"))),
        ("lib/robot_stack", sorted(glob("ros/bin/*"))),
        *(
            (f"{SHARE}/{folder}", sorted([*glob(f"{folder}/*.yaml"), *glob(f"{folder}/*.json")]))
            for folder in sorted(glob("hardware_configs/*"))
        ),
    ],
)
