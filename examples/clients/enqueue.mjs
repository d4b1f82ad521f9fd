// Enqueues from Node with pg: node enqueue.mjs "$DATABASE_URL" CATALOG PRODUCT PRICE
//
// The table tariffs stands for yours: CREATE TABLE tariffs (catalog text, product text, unit_price numeric, PRIMARY KEY (catalog, product))
import pg from 'pg'

/** Stores a tariff and asks for its price, in one transaction. Returns {job_id, joined}; job_id is a string, as any bigint. */
export async function publish(client, catalog, product, unitPrice) {
  await client.query('BEGIN')
  try {
    await client.query(
      `INSERT INTO tariffs VALUES ($1, $2, $3)
       ON CONFLICT (catalog, product) DO UPDATE SET unit_price = excluded.unit_price`,
      [catalog, product, unitPrice])
    const { rows } = await client.query(
      'SELECT job_id, joined FROM notifyworker.enqueue_price_refresh($1, $2)',
      [catalog, JSON.stringify([product])])
    await client.query('COMMIT')
    return rows[0]
  } catch (err) {
    await client.query('ROLLBACK')
    throw err
  }
}

const [url, ...args] = process.argv.slice(2)
if (url) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { job_id, joined } = await publish(client, ...args)
    console.log(`job ${job_id}, ${joined ? 'joined' : 'new'}`)
  } finally {
    await client.end()
  }
}
