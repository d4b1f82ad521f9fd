"""Enqueues from Python with psycopg 3: python3 enqueue.py "$DATABASE_URL" CATALOG PRODUCT PRICE

The table tariffs stands for yours: CREATE TABLE tariffs (catalog text, product text, unit_price numeric, PRIMARY KEY (catalog, product))
"""

import sys

import psycopg
from psycopg.types.json import Jsonb


def publish(conn, catalog, product, unit_price):
    """Stores a tariff and asks for its price, in one transaction. Returns (job id, joined)."""
    with conn.transaction():
        conn.execute(
            """INSERT INTO tariffs VALUES (%s, %s, %s)
               ON CONFLICT (catalog, product) DO UPDATE SET unit_price = excluded.unit_price""",
            (catalog, product, unit_price),
        )
        return conn.execute(
            "SELECT job_id, joined FROM notifyworker.enqueue_price_refresh(%s, %s)",
            (catalog, Jsonb([product])),
        ).fetchone()


if __name__ == "__main__":
    url, catalog, product, unit_price = sys.argv[1:]
    with psycopg.connect(url) as conn:
        job_id, joined = publish(conn, catalog, product, unit_price)
        print(f"job {job_id}, {'joined' if joined else 'new'}")
