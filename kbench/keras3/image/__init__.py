"""`keras.ops.image`: what each function does says Keras; how, its module here."""

from kbench.keras3.image.color import (
    gaussian_blur,
    hsv_to_rgb,
    rgb_to_grayscale,
    rgb_to_hsv,
    sobel_edges,
)
from kbench.keras3.image.coordinates import (
    affine_transform,
    compute_homography_matrix,
    elastic_transform,
    map_coordinates,
    perspective_transform,
)
from kbench.keras3.image.resample import resize, scale_and_translate

__all__ = [
    "affine_transform", "compute_homography_matrix", "elastic_transform", "gaussian_blur",
    "hsv_to_rgb", "map_coordinates", "perspective_transform", "resize", "rgb_to_grayscale",
    "rgb_to_hsv", "scale_and_translate", "sobel_edges",
]  # fmt: skip
