"""Draws the README's picture: the one that ``softmargin demo`` writes, in 256 colours to keep it small.

Run ``python docs/pictures/make.py``; needs the ``cli`` extra.
"""

from pathlib import Path

from PIL import Image

from softmargin.demo import draw

if __name__ == "__main__":
    path = draw(Path(__file__).with_name("surface.png"))
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)
