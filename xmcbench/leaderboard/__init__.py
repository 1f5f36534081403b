"""Leaderboards: tables, pages and figures as a pure function of records, published figures and remarks."""
