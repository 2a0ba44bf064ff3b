"""The episode browser, `robot-stack data view`: a page that lists recorded episodes, plays, compares and mends them."""
