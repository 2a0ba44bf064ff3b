"""Bytes of any driver as RGB, and what is refused in words."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.sensing.pixels import LARGE_PX, LAYOUTS, decode, jpeg_of, layout_of, said_size, to_rgb, view_of
from robot_stack.types.errors import SpecError

RGB = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)


def sent(rgb: np.ndarray, encoding: str) -> np.ndarray:
    """What a driver would send of an RGB image, by hand."""
    alpha = np.full(rgb.shape[:2], 7, np.uint8)
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    channels = {
        "rgb8": (red, green, blue),
        "bgr8": (blue, green, red),
        "rgba8": (red, green, blue, alpha),
        "bgra8": (blue, green, red, alpha),
        "mono8": (green,),
    }[encoding]
    return np.stack(channels, axis=2)


def padded(image: np.ndarray, step: int) -> np.ndarray:
    rows = np.full((len(image), step), 99, np.uint8)
    rows[:, : image[0].size] = image.reshape(len(image), -1)
    return rows.reshape(-1)


@pytest.mark.parametrize("encoding", LAYOUTS)
@pytest.mark.parametrize("padding", [0, 1, 11])
def test_every_layout_and_row_padding_gives_the_same_rgb(encoding: str, padding: int) -> None:
    image = sent(RGB, encoding)
    step = image[0].size + padding
    data = padded(image, step)
    found = to_rgb(view_of(data, encoding=encoding, height=6, width=5, step=step), encoding)
    wanted = np.repeat(RGB[..., 1:2], 3, axis=2) if encoding == "mono8" else RGB
    np.testing.assert_array_equal(found, wanted)


def test_the_last_row_may_lack_its_padding() -> None:
    data = padded(RGB, 20)[: 5 * 20 + 15]
    np.testing.assert_array_equal(view_of(data, encoding="rgb8", height=6, width=5, step=20), RGB)


def test_one_byte_too_few_is_refused() -> None:
    data = padded(RGB, 20)[: 5 * 20 + 14]
    with pytest.raises(SpecError, match="5x6 rgb8 has 114 bytes, must have 120"):
        view_of(data, encoding="rgb8", height=6, width=5, step=20)


def test_a_view_costs_no_copy_and_cannot_be_written() -> None:
    data = RGB.reshape(-1).copy()
    view = view_of(data, encoding="rgb8", height=6, width=5, step=15)
    assert np.shares_memory(view, data)
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0, 0] = 1


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 40), st.integers(0, 300), st.sampled_from(sorted(LAYOUTS)))
def test_numbers_that_do_not_fit_are_refused_and_never_read_beyond_the_data(
    height: int, width: int, step: int, length: int, encoding: str
) -> None:
    data = np.zeros(length, np.uint8)
    row = width * LAYOUTS[encoding].channels
    fits = height > 0 and width > 0 and step >= row and length >= (height - 1) * step + row
    try:
        view = view_of(data, encoding=encoding, height=height, width=width, step=step)
    except SpecError:
        assert not fits
    else:
        assert fits
        assert np.array_equal(view, np.zeros((height, width, LAYOUTS[encoding].channels)))


@pytest.mark.parametrize("encoding", ["mono16", "16UC1", "rgb16", "32FC1", "bgr16", "64FC3"])
def test_more_than_eight_bits_are_refused_in_words(encoding: str) -> None:
    with pytest.raises(SpecError, match=f"'{encoding}', must have 8 bits per channel: rgb8, bgr8"):
        layout_of(encoding)


@pytest.mark.parametrize("encoding", ["yuv422_yuy2", "bayer_rggb8", "", "RGB8", "8UC3"])
def test_an_unknown_encoding_is_refused_with_those_that_are_taken(encoding: str) -> None:
    with pytest.raises(SpecError, match="must be one of rgb8, bgr8, rgba8, bgra8, mono8; set the output format"):
        layout_of(encoding)


@pytest.mark.parametrize("form", ["png", "PNG", "rgb8; png compressed bgr8", "bgr8; png compressed "])
def test_a_png_gives_back_every_pixel(form: str) -> None:
    file = cv2.imencode(".png", RGB[..., ::-1])[1].reshape(-1)
    np.testing.assert_array_equal(to_rgb(*decode(file, form)), RGB)


def test_a_jpeg_decodes_to_what_opencv_makes_of_it() -> None:
    file = cv2.imencode(".jpg", RGB[..., ::-1])[1].reshape(-1)
    wanted = cv2.imdecode(file, cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_array_equal(to_rgb(*decode(file, "jpeg")), wanted)


def test_grey_and_transparent_files_are_known_by_their_channels() -> None:
    grey, alpha = RGB[..., 1], np.dstack([RGB[..., ::-1], RGB[..., 0]])
    assert to_rgb(*decode(cv2.imencode(".png", grey)[1].reshape(-1), "png"))[2, 3, 0] == grey[2, 3]
    np.testing.assert_array_equal(to_rgb(*decode(cv2.imencode(".png", alpha)[1].reshape(-1), "png")), RGB)


@pytest.mark.parametrize("form", ["16UC1; compressedDepth png", "h264", "", "tiff"])
def test_another_format_is_refused_in_words(form: str) -> None:
    with pytest.raises(SpecError, match="must be jpeg or png"):
        decode(np.zeros(10, np.uint8), form)


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_damaged_file_is_refused(cut: int) -> None:
    file = cv2.imencode(".png", RGB)[1].reshape(-1)
    with pytest.raises(SpecError, match="cannot be decoded"):
        decode(file[:cut], "png")


def saying(form: str, rows: int, columns: int) -> np.ndarray:
    """A small file whose header says that it is large."""
    file = bytearray(cv2.imencode(f".{form}", RGB)[1].tobytes())
    if form == "png":
        file[16:24] = struct.pack(">II", columns, rows)
        file[29:33] = struct.pack(">I", zlib.crc32(file[12:29]))
    else:
        frame = file.index(b"\xff\xc0") + 5
        file[frame : frame + 4] = struct.pack(">HH", rows, columns)
    return np.frombuffer(bytes(file), np.uint8)


@pytest.mark.parametrize("form", ["png", "jpg"])
@pytest.mark.parametrize("side", [60_000, 20_000])
def test_a_file_that_says_it_is_huge_is_refused_before_it_is_decoded(
    form: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(SpecError, match=rf"is {side}x{side}, must have at most"):
        decode(saying(form, side, side), form)


def test_what_opencv_raises_of_a_file_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object) -> None:
        raise cv2.error("validateInputImageSize")

    monkeypatch.setattr(cv2, "imdecode", raising)
    with pytest.raises(SpecError, match="cannot be decoded"):
        decode(saying("png", 6, 5), "png")


@pytest.mark.parametrize("words", [[], [cv2.IMWRITE_JPEG_PROGRESSIVE, 1], [cv2.IMWRITE_JPEG_RST_INTERVAL, 1]])
def test_the_size_of_a_file_is_read_out_of_its_header(words: list[int]) -> None:
    for each in (np.zeros((300, 17, 3), np.uint8), np.zeros((9, 400), np.uint8)):
        assert said_size(cv2.imencode(".jpg", each, words)[1].reshape(-1), "jpeg") == each.shape[:2]
        assert said_size(cv2.imencode(".png", each)[1].reshape(-1), "png") == each.shape[:2]


@given(st.binary(max_size=80), st.sampled_from([b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b""]))
def test_any_bytes_are_decoded_or_refused(data: bytes, start: bytes) -> None:
    with suppress(SpecError):
        image, _ = decode(np.frombuffer(start + data, np.uint8), "jpeg")
        assert image.ndim == 3


def test_a_sixteen_bit_png_is_refused_in_words() -> None:
    file = cv2.imencode(".png", np.zeros((4, 4), np.uint16))[1].reshape(-1)
    with pytest.raises(SpecError, match="uint16 with 1 channels, must have 8 bits"):
        decode(file, "png")


@pytest.mark.parametrize(("width", "wrong"), [(64, 6.0), (640, 12.0)])
def test_a_jpeg_shows_what_the_image_does(width: int, wrong: float) -> None:
    y, x = np.mgrid[:width, :width]
    image = np.stack([255 * x // width, 255 * y // width, np.full_like(x, 90)], -1).astype(np.uint8)
    image[:, width // 2 :: 16] = [240, 20, 20]  # stripes of colour
    image = cv2.blur(image, (4, 4)) if width >= LARGE_PX else image
    back = cv2.cvtColor(cv2.imdecode(np.frombuffer(jpeg_of(image), np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    assert np.abs(back.astype(int) - image).mean() < wrong


def test_a_large_jpeg_is_as_small_as_half_of_its_colours_make_it() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (LARGE_PX, LARGE_PX, 3), np.uint8)
    large, strip = len(jpeg_of(noise)), len(jpeg_of(np.hstack([noise[: LARGE_PX - 8]] * 2)))
    assert large < 0.7 * strip / 2
