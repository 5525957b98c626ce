"""What pyproject.toml cannot say yet: the native module of the log doctor."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "schedule_adapters.doctor._plain_lines",
            ["src/schedule_adapters/doctor/_plain_lines.c"],
            extra_compile_args=["-O2"],
            py_limited_api=True,
            optional=True,  # without a compiler it is left out, and msgspec reads instead
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
