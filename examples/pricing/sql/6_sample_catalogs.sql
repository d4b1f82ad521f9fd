-- The rules of the catalogs in sample-tariffs.csv. A catalog that a tariff brings along has the defaults of the table.
INSERT INTO pricing.catalogs (id, margin, rounding_step, minimum_price) VALUES
	('garden',     0.30, 0.05, 0.50),
	('kitchen',    0.25, 0.01, 0.10),
	('lighting',   0.40, 0.10, 1.00),
	('stationery', 0.35, 0.01, 0.05),
	('toys',       0.28, 0.05, 0.20),
	('workshop',   0.20, 0.25, 0.25)
ON CONFLICT DO NOTHING;
